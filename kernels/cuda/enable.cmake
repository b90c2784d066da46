# What a project needs once to compile for GPUs.

# Code for the GPUs of these generations, and for newer ones what the driver compiles when it starts.
set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90 CACHE STRING "GPUs to compile for")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know that nvcc has it.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/compile ${CMAKE_CXX_COMPILER_LAUNCHER})

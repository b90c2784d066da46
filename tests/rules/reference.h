#ifndef PARAPET_TESTS_RULES_REFERENCE_H_
#define PARAPET_TESTS_RULES_REFERENCE_H_

#include <string>
#include <vector>

namespace parapet::rules::reference {

// Every rule straight from its definition on the vectors themselves, in
// float64, without distances between mixed rows, weights, or any code of the
// rules. Slow.
using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

// The rule or the step before one of a name, with the options that tests use;
// `option` is m, c, s, tau, pivot or root, nu is 0.1 with 3 iterations from the
// mean, and centered_clip takes 3.
Vector Rule(const std::string& name, const Matrix& x, int f, double option,
            const Vector& prev);
Matrix Mix(const std::string& name, const Matrix& x, int f, double option);

// How many subsets of n-f out of n there are.
double Subsets(int n, int f);

}  // namespace parapet::rules::reference

#endif  // PARAPET_TESTS_RULES_REFERENCE_H_

// Pinocchio's algorithms on CasADi's expressions, written out as C by CasADi.
// Arguments: a model as Pinocchio saves it, and the file to write. with_casadi.py builds and runs
// this.

#include <fstream>
#include <sstream>
#include <string>

#include <pinocchio/autodiff/casadi.hpp>

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

namespace pin = pinocchio;
using casadi::SX;
using Vector = Eigen::Matrix<SX, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<SX, Eigen::Dynamic, Eigen::Dynamic>;

namespace {

Vector as_eigen(const SX & x) {
  Vector result(x.size1());
  for (casadi_int i = 0; i < x.size1(); ++i)
    result[i] = x(i);
  return result;
}

// Row by row, as one column.
SX flat(const Matrix & A) {
  SX result = SX::zeros(A.size());
  for (Eigen::Index i = 0; i < A.rows(); ++i)
    for (Eigen::Index j = 0; j < A.cols(); ++j)
      result(i * A.cols() + j) = A(i, j);
  return SX::densify(result);
}

} // namespace

int main(int, char ** arguments) {
  std::ifstream file(arguments[1]);
  std::stringstream text;
  text << file.rdbuf();
  pin::Model numbers;
  numbers.loadFromString(text.str());
  const auto model = numbers.cast<SX>();
  const SX q = SX::sym("q", model.nq), v = SX::sym("v", model.nv);
  const SX x = SX::sym("x", model.nv), y = SX::sym("y", model.nv);
  const Vector eq = as_eigen(q), ev = as_eigen(v), ex = as_eigen(x), ey = as_eigen(y);

  using Data = pin::DataTpl<SX>;
  Data terms(model), inverse(model), forward(model);
  pin::crba(model, terms, eq);
  for (int i = 0; i < model.nv; ++i)
    for (int j = 0; j < i; ++j)
      terms.M(i, j) = terms.M(j, i);
  pin::computeCoriolisMatrix(model, terms, eq, ev);
  pin::computeGeneralizedGravity(model, terms, eq);
  pin::rnea(model, inverse, eq, ev, ex);
  pin::aba(model, forward, eq, ev, ex, pin::Convention::LOCAL);
  const Matrix M = terms.M, C = terms.C;
  const Vector g = terms.g;
  // The vector product C v_r keeps only what it needs of C.
  const Vector torque = M * ey + C * ex + g;

  const std::string path = arguments[2];
  const auto slash = path.find_last_of('/');
  casadi::CodeGenerator generator(path.substr(slash + 1));
  generator.add(casadi::Function("dynamics_terms", {q, v}, {flat(M), flat(C), flat(g)}));
  generator.add(casadi::Function("mass_matrix", {q}, {flat(M)}));
  generator.add(casadi::Function("inverse_dynamics", {q, v, x}, {flat(Vector(inverse.tau))}));
  generator.add(casadi::Function("forward_dynamics", {q, v, x}, {flat(Vector(forward.ddq))}));
  generator.add(casadi::Function("slotine_li_torque", {q, v, x, y}, {flat(torque)}));
  generator.generate(path.substr(0, slash + 1));
  return 0;
}

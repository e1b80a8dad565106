// Pinocchio's algorithms called and timed from C++. with_pinocchio_cpp.py builds and loads this; the
// model comes from Python, in the form that Pinocchio saves it in.

#include <chrono>
#include <string>
#include <vector>

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

namespace pin = pinocchio;
using Vector = Eigen::VectorXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

struct State {
  Vector q, v, x, y; // x and y as in quantities.py
};

struct Robot {
  pin::Model model;
  pin::Data data;
  std::vector<State> states;
  std::vector<Vector> unit_velocities;
  Vector torque;
};

enum Quantity { MASS, CORIOLIS, TERMS, CHRISTOFFEL, INVERSE, FORWARD, SLOTINE_LI };

void terms(Robot & robot, const State & s) {
  pin::crba(robot.model, robot.data, s.q); // the upper triangle; nobody asks for more
  pin::computeCoriolisMatrix(robot.model, robot.data, s.q, s.v);
  pin::computeGeneralizedGravity(robot.model, robot.data, s.q);
}

void evaluate(Robot & robot, Quantity quantity, const State & s) {
  const pin::Model & model = robot.model;
  pin::Data & data = robot.data;
  switch (quantity) {
  case MASS:
    pin::crba(model, data, s.q);
    break;
  case CORIOLIS:
    pin::computeCoriolisMatrix(model, data, s.q, s.v);
    break;
  case TERMS:
    terms(robot, s);
    break;
  case CHRISTOFFEL:
    for (const Vector & unit : robot.unit_velocities)
      pin::computeCoriolisMatrix(model, data, s.q, unit);
    break;
  case INVERSE:
    pin::rnea(model, data, s.q, s.v, s.x);
    break;
  case FORWARD:
    pin::aba(model, data, s.q, s.v, s.x, pin::Convention::WORLD);
    break;
  case SLOTINE_LI:
    terms(robot, s);
    robot.torque = data.g;
    robot.torque.noalias() += data.M.selfadjointView<Eigen::Upper>() * s.y;
    robot.torque.noalias() += data.C * s.x;
    break;
  }
}

Vector row(const double * values, int size, int number) {
  return Eigen::Map<const Vector>(values + number * size, size);
}

} // namespace

extern "C" {

Robot * robot_new(const char * saved, int states, const double * q, const double * v,
                  const double * x, const double * y) {
  auto * robot = new Robot;
  robot->model.loadFromString(saved);
  robot->data = pin::Data(robot->model);
  const int nq = robot->model.nq, nv = robot->model.nv;
  for (int s = 0; s < states; ++s)
    robot->states.push_back({row(q, nq, s), row(v, nv, s), row(x, nv, s), row(y, nv, s)});
  for (int k = 0; k < nv; ++k)
    robot->unit_velocities.push_back(Vector::Unit(nv, k));
  return robot;
}

void robot_delete(Robot * robot) { delete robot; }

// Seconds that so many evaluations take, at one state after another.
double robot_time(Robot * robot, int quantity, int calls) {
  const std::size_t count = robot->states.size();
  std::size_t s = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int call = 0; call < calls; ++call) {
    evaluate(*robot, static_cast<Quantity>(quantity), robot->states[s]);
    s = s + 1 < count ? s + 1 : 0;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What the last evaluations left: M, C (nv, nv) by rows, g, rnea, aba, Slotine-Li torque (nv).
void robot_results(Robot * robot, double * M, double * C, double * vectors) {
  const int n = robot->model.nv;
  pin::Data & data = robot->data;
  Eigen::Map<RowMajor>(M, n, n) = data.M.selfadjointView<Eigen::Upper>();
  Eigen::Map<RowMajor>(C, n, n) = data.C;
  Eigen::Map<RowMajor> rows(vectors, 4, n);
  rows.row(0) = data.g;
  rows.row(1) = data.tau;
  rows.row(2) = data.ddq;
  rows.row(3) = robot->torque.size() ? robot->torque : Vector::Zero(n);
}
}

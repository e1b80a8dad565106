"""One specimen of an arm in MuJoCo, with friction and masses that differ from the URDF."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from bench.contacts.arms import Arm
from bench.contacts.motion import Reference
from bench.contacts.surface import surfaces
from rbd_control.dynamics import Model, dynamics_terms, frame_placement, mass_matrix

PERIOD = 0.001
"""Step of the simulation and of the samples [s]."""
AGREEMENT = 1e-9
"""Tolerance of our nominal model against MuJoCo's, as a fraction of the largest entry."""
STRIBECK_SPEED = 0.05
"""Speed over which friction falls from its breakaway value [rad/s]."""
TIP = 0.02
"""Radius of the ball that touches an obstacle [m]."""
OBSTACLE = 0.02
"""Half the thickness of an obstacle [m]."""
STIFFNESS = 6.0
"""Stiffness of the controller in effort limits per rad: 500 N·m/rad at a Panda's shoulder."""
DAMPING_RATIO = 0.7
LEAST_INERTIA = 0.003
"""Smallest inertia of a joint including its motor, which the description lacks [kg·m²]."""
BOX_FRICTION = [0.3, 0.3, 0.0, 0.0, 0.0]
"""Coefficients of friction between the links and the box, as MuJoCo has them."""
AWAY = (0.0, 0.0, -1000.0)
"""Position of an unused obstacle [m], out of reach of the arm and of the unused balls."""
PARKED = (0.0, 0.0, 100.0)
"""Distance of the unused balls from their links [m]."""
_CONTACT = int(mujoco.mjtConstraint.mjCNSTR_CONTACT_FRICTIONLESS)


class Plant:
    """An arm in MuJoCo, with two obstacles that can be placed, and joint friction.

    The plate touches one ball on one link, at a planned point. The box touches the convex hulls of
    all links.

    ``seed`` selects the specimen. Friction grows with the size of the joint: Coulomb 0.25 N·m plus
    0.4 % of the effort limit, viscous 0.45 N·m·s/rad plus 0.65 % of it per rad/s, each within 30 %.
    Coulomb friction is up to 20 % higher towards standstill. Each mass is 2 to 5 % too high or too
    low (``mass_error``), and its rotational inertia with it.

    Args:
        arm: the arm with its nominal description.
        seed: seed of the specimen.
        mass_error: smallest and largest relative error of the masses.

    Attributes:
        mj, data: model and state in MuJoCo.
        surface: surface of each moving body, by its row in the model.
        body, tip: numbers in MuJoCo of the moving links and of their balls, (nv,).
        coulomb, viscous: friction of the specimen, (nv,) [N·m, N·m·s/rad].
        stribeck: relative increase of Coulomb friction at standstill, (nv,).

    Raises:
        ValueError: if MuJoCo's model of the description differs from ours by more than
            :data:`AGREEMENT`, or orders the joints differently.
    """

    def __init__(self, arm: Arm, seed: int, mass_error: tuple[float, float] = (0.02, 0.05)) -> None:
        self.arm = arm
        self.surface = surfaces(arm)
        spec = mujoco.MjSpec.from_string(without_geometry(arm.urdf))
        spec.option.timestep = PERIOD
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        # A ball at the planned point of contact, which is the part that touches the obstacle.
        obstacle = spec.worldbody.add_body(name="obstacle", mocap=True, pos=AWAY)
        obstacle.add_geom(
            name="obstacle",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.1, 0.1, OBSTACLE],
            **_UNTOUCHED,
        )
        for link in arm.model.joint_links:
            tip = {"name": link, "size": [TIP, 0, 0], "pos": PARKED}
            spec.body(link).add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, **tip, **_UNTOUCHED)
            # The stiffness is 10 kN/m for each kg of the colliding mass.
            spec.add_pair(geomname1=link, geomname2="obstacle", solref=[0.01, 1.0])
        self._add_box(spec)
        self.mj = spec.compile()
        self.data = mujoco.MjData(self.mj)
        # Views of MuJoCo's memory, because each access through its Python binding is slow.
        self._qvel, self._frictionloss = self.data.qvel, self.mj.dof_frictionloss
        self.body = np.array([self.mj.body(link).id for link in arm.model.joint_links])
        self.tip = np.array([self.mj.geom(link).id for link in arm.model.joint_links])
        self._box = self.mj.geom("box").id
        self._probe = mujoco.MjData(self.mj)
        rows = [int(self.mj.joint(name).dofadr[0]) for name in arm.model.joint_names]
        if rows != list(range(arm.model.nv)):
            raise ValueError(f"MuJoCo orders the joints of {arm.name} otherwise: {rows}")
        self._check()
        rng = np.random.default_rng(seed)
        self._make_specimen(rng, mass_error)

    def _add_box(self, spec: mujoco.MjSpec) -> None:
        """Add a box that touches the convex hulls of the links, with dry friction."""
        box = spec.worldbody.add_body(name="box", mocap=True, pos=AWAY)
        box.add_geom(name="box", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.1, 0.1, 0.1], **_UNTOUCHED)
        for row, surface in self.surface.items():
            name = f"hull_{row}"
            spec.add_mesh(name=name, uservert=surface.corners.ravel())
            spec.body(self.arm.model.joint_links[row]).add_geom(
                name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, **_UNTOUCHED
            )
            spec.add_pair(
                geomname1=name, geomname2="box", solref=[0.01, 1.0], condim=3, friction=BOX_FRICTION
            )

    def _make_specimen(self, rng: np.random.Generator, mass_error: tuple[float, float]) -> None:
        n = self.arm.model.nv
        effort = self.arm.model.effort_limit
        coulomb, viscous = typical_friction(self.arm.model)
        self.coulomb = rng.uniform(0.7, 1.3, n) * coulomb
        self.viscous = rng.uniform(0.7, 1.3, n) * viscous
        self.stribeck = rng.uniform(0.0, 0.2, n)
        self.torque_noise = 0.05 * float(effort.max()) / 87.0
        """Standard deviation of the measured torque: 0.05 N·m on an arm of the Panda's size."""
        self.mj.dof_damping[:] = self.viscous
        # With MuJoCo's default dry friction a light wrist creeps at 0.1 rad/s. A joint of
        # 1e-4 kg·m² has its full friction from 0.3 rad/s only, so the lightest joints have a motor.
        self.mj.dof_solimp[:, :2] = 0.99
        lightest = np.diag(mass_matrix(self.arm.model, self.arm.centre))
        self.mj.dof_armature[:] = np.maximum(LEAST_INERTIA - lightest, 0.0)
        factor = 1.0 + rng.choice([-1.0, 1.0], n) * rng.uniform(*mass_error, n)
        self.mj.body_mass[self.body] *= factor
        self.mj.body_inertia[self.body] *= factor[:, None]
        mujoco.mj_setConst(self.mj, self.data)

    def start(self, reference: Reference) -> None:
        """Set positions and velocities from the first row of ``reference``; remove the obstacle."""
        mujoco.mj_resetData(self.mj, self.data)
        self.data.qpos[:], self.data.qvel[:] = reference.q[0], reference.v[0]
        self.remove_obstacle()

    def set_friction(self) -> None:
        """Set MuJoCo's Coulomb friction for the present velocity; call it before each step."""
        fading = np.exp(-np.square(self._qvel / STRIBECK_SPEED))
        self._frictionloss[:] = self.coulomb * (1.0 + self.stribeck * fading)

    def gains(self) -> tuple[np.ndarray, np.ndarray]:
        """Return stiffness [N·m/rad] and damping [N·m·s/rad] of the controller, (nv,) each."""
        stiffness = STIFFNESS * self.arm.model.effort_limit
        inertia = np.diag(mass_matrix(self.arm.model, self.arm.centre))
        return stiffness, 2.0 * DAMPING_RATIO * np.sqrt(stiffness * inertia)

    def friction(self, v: np.ndarray) -> np.ndarray:
        """Return the friction that the arm's controller compensates, (nv,) [N·m].

        It is the true Coulomb and viscous friction without the increase towards standstill, and
        with a smooth change of sign.

        Args:
            v: joint velocities, (nv,) or (k, nv) [rad/s].
        """
        return self.coulomb * np.tanh(v / STRIBECK_SPEED) + self.viscous * v

    def rotation(self, row: int) -> np.ndarray:
        """Return the rotation (3, 3) from the link that joint ``row`` moves to world axes."""
        return self.data.xmat[self.body[row]].reshape(3, 3)

    def place(self, row: int, point: np.ndarray) -> np.ndarray:
        """Return the world position of a point of the link that joint ``row`` moves, (3,) [m].

        Args:
            row: row of the joint.
            point: the point in the frame of the link, (3,) [m].
        """
        return self.data.xpos[self.body[row]] + self.rotation(row) @ point

    def jacobian(self, row: int, point: np.ndarray) -> np.ndarray:
        """Return the Jacobian of a point's velocity in world axes, (3, nv).

        Args:
            row: row of the joint that moves the link of the point.
            point: the point in the frame of the link, (3,) [m].
        """
        jacobian = np.empty((3, self.mj.nv))
        at = self.place(row, point)
        mujoco.mj_jac(self.mj, self.data, jacobian, None, at, self.body[row])
        return jacobian

    def place_obstacle(
        self, row: int, tip: np.ndarray, centre: np.ndarray, facing: np.ndarray
    ) -> None:
        """Place the obstacle, a plate, and the ball of a link, which alone touches the obstacle.

        Args:
            row: row of the joint that moves the link.
            tip: centre of the ball in the frame of the link, (3,) [m].
            centre: centre of the plate in the world, (3,) [m].
            facing: normal of the plate, (3,) world axes, of any length.
        """
        self.mj.geom_pos[self.tip[row]] = tip
        self.data.mocap_pos[0] = centre
        mujoco.mju_quatZ2Vec(self.data.mocap_quat[0], facing / np.linalg.norm(facing))

    def place_box(self, half: np.ndarray, centre: np.ndarray, rotation: np.ndarray) -> bool:
        """Place the box; return whether it is clear of all links.

        Args:
            half: half the lengths of its edges, (3,) [m].
            centre: centre, (3,) world axes [m].
            rotation: from the axes of the box to world axes, (3, 3).
        """
        self.mj.geom_size[self._box] = half
        self.mj.geom_rbound[self._box] = np.linalg.norm(half)
        self.mj.geom_aabb[self._box, 3:] = half
        self.data.mocap_pos[1] = centre
        mujoco.mju_mat2Quat(self.data.mocap_quat[1], rotation.ravel())
        probe = self._probe
        probe.qpos[:] = self.data.qpos
        probe.mocap_pos[:], probe.mocap_quat[:] = self.data.mocap_pos, self.data.mocap_quat
        mujoco.mj_fwdPosition(self.mj, probe)
        return bool(probe.ncon == 0)

    def remove_obstacle(self) -> None:
        """Move the obstacles and the balls out of reach of the arm."""
        self.data.mocap_pos[:] = AWAY
        self.mj.geom_pos[self.tip] = PARKED

    def contact_forces(self) -> np.ndarray:
        """Return the force of obstacles on each link in the last step, (nv, 3) world axes [N]."""
        forces, wrench = np.zeros((self.mj.nv, 3)), np.empty(6)
        rows = {int(body): row for row, body in enumerate(self.body)}
        for i in range(self.data.ncon):
            mujoco.mj_contactForce(self.mj, self.data, i, wrench)
            contact = self.data.contact[i]
            # The force acts on the second geometry; the first axis of its frame is the normal.
            first, second = (rows.get(int(self.mj.geom_bodyid[g]), -1) for g in contact.geom)
            force = contact.frame.reshape(3, 3).T @ wrench[:3]
            forces[max(first, second)] += force if second >= 0 else -force
        return forces

    def contact_torque(self) -> np.ndarray:
        """Return the joint torques of the obstacle's force in the last step, (nv,) [N·m]."""
        forces = np.where(self.data.efc_type >= _CONTACT, self.data.efc_force, 0.0)
        torque = np.empty(self.mj.nv)
        mujoco.mj_mulJacTVec(self.mj, self.data, torque, forces)
        return torque

    def _check(self) -> None:
        """Raise an error unless MuJoCo and our model have the same dynamics."""
        model, rng = self.arm.model, np.random.default_rng(0)
        for _ in range(3):
            q = self.arm.centre + rng.uniform(-1.0, 1.0, model.nv)
            v = rng.uniform(-1.0, 1.0, model.nv)
            self.data.qpos[:], self.data.qvel[:] = q, v
            mujoco.mj_forward(self.mj, self.data)
            terms = dynamics_terms(model, q, v)
            pairs: list[tuple[str, Any, Any]] = [
                ("M", terms.M, self.mass_matrix()),
                ("C v + g", terms.C @ v + terms.g, self.data.qfrc_bias),
            ]
            for link, body in zip(model.joint_links, self.body, strict=True):
                pairs.append((link, frame_placement(model, q, link)[:3, 3], self.data.xpos[body]))
            for what, ours, theirs in pairs:
                if np.abs(ours - theirs).max() > AGREEMENT * max(np.abs(ours).max(), 1.0):
                    raise ValueError(f"{self.arm.name}: MuJoCo's {what} differs: {ours} {theirs}")

    def mass_matrix(self) -> np.ndarray:
        """Return MuJoCo's mass matrix at the present position, (nv, nv) [kg·m²]."""
        M = np.empty((self.mj.nv, self.mj.nv))
        for column, unit in zip(M, np.eye(self.mj.nv), strict=True):
            mujoco.mj_mulM(self.mj, self.data, column, unit)
        return M


def typical_friction(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return typical Coulomb and viscous friction of each joint, (nv,) each [N·m, N·m·s/rad].

    Both grow linearly with the effort limit of the joint.
    """
    return 0.25 + 0.004 * model.effort_limit, 0.45 + 0.0065 * model.effort_limit


# Geometry without contacts, except in the pairs that ``add_pair`` names.
_UNTOUCHED: dict[str, Any] = {"contype": 0, "conaffinity": 0, "mass": 0.0}


def without_geometry(urdf: str) -> str:
    """Return the URDF without geometry and other elements that do not affect the dynamics."""
    robot = ElementTree.fromstring(urdf)
    for parent in robot:
        for child in list(parent):
            if child.tag in ("visual", "collision", "dynamics"):
                parent.remove(child)
    extension = ElementTree.SubElement(robot, "mujoco")
    # MuJoCo merges links without mass and shape into the links that they are fixed to.
    options = {"balanceinertia": "false", "inertiafromgeom": "false", "fusestatic": "true"}
    ElementTree.SubElement(extension, "compiler", options)
    return ElementTree.tostring(robot, encoding="unicode")

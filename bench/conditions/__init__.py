"""The table of hard conditions: a detector that was calibrated once meets an arm that has changed.

Two simulated arms are calibrated on 60 s of ordinary motion. Then one thing changes: the rate of
the joint states, a delay, the friction, a payload, the description. Each row of the table runs the
detector of the package and a plain momentum observer on the same samples, and quotes what the
package says about the cause.
"""

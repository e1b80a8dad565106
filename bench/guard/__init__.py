"""The contact guard on a position-controlled arm in MuJoCo: stops on contact, and false stops."""

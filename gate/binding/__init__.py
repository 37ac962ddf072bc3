"""How a kernel of a FlyDSL checkout is found and called: for its machine code by `codegen`, for real by `replay`.

Standard library only: it is imported inside workers that hold nothing but torch and FlyDSL.
"""

def build(*a,**k): raise NotImplementedError
def write(*a): raise NotImplementedError

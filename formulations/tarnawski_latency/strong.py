def build(*a,**k): raise NotImplementedError

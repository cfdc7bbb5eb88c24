from ptd_ext.ops.reference import *

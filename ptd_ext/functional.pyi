from ptd_ext.ops.functional import *

"""Random rules over few names, so that they meet each other and the questions."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.security.acls import AclBinding
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType

TYPES = [AclResource.TOPIC, AclResource.GROUP]
NAMES = ["*", "a", "ab", "abc", "b", "hardcode", "h"]
PRINCIPALS = ["User:*", "User:a", "User:b", "Other:a"]
HOSTS = ["*", "h1", "h2"]
OPERATIONS = [operation for operation in AclOperation if operation is not AclOperation.ANY]

rules = st.builds(
    AclBinding,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
    st.sampled_from(HOSTS),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)

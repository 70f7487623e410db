"""DescribeUserScramCredentials and AlterUserScramCredentials.

There are no SCRAM credentials; setting some is refused, because accepting what is then not enforced would be a false
promise.
"""

from __future__ import annotations

from collections import Counter

from penstock.broker.requests import Request
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

_FEWEST_ITERATIONS = {1: 4096, 2: 4096}
"""By mechanism: SCRAM-SHA-256 and SCRAM-SHA-512."""
_MOST_ITERATIONS = 16384
_NO_SASL = "This broker has no SASL listener, so it does not take credentials."


class ScramCredentialHandlers:
    def describe_user_scram_credentials(
        self, request: Request[m.DescribeUserScramCredentialsRequest]
    ) -> m.DescribeUserScramCredentialsResponse:
        body = request.body
        names = [user.name for user in body.users or []]
        response = m.DescribeUserScramCredentialsResponse()
        for name in dict.fromkeys(names):
            result = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(user=name)
            if names.count(name) > 1:
                result.error_code = ErrorCode.DUPLICATE_RESOURCE
                result.error_message = (
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                )
            else:
                result.error_code = ErrorCode.RESOURCE_NOT_FOUND
                result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
            response.results.append(result)
        return response

    def alter_user_scram_credentials(
        self, request: Request[m.AlterUserScramCredentialsRequest]
    ) -> m.AlterUserScramCredentialsResponse:
        body = request.body
        response = m.AlterUserScramCredentialsResponse
        refused: dict[str, tuple[ErrorCode, str]] = {}
        for deletion in body.deletions:
            absent = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
            refused.setdefault(deletion.name, _misnamed(deletion.name, deletion.mechanism) or absent)
        times = Counter((upsertion.name, upsertion.mechanism) for upsertion in body.upsertions)
        for upsertion in body.upsertions:
            wrong = _misnamed(upsertion.name, upsertion.mechanism)
            if (
                wrong is None
                and not _FEWEST_ITERATIONS[upsertion.mechanism] <= upsertion.iterations <= _MOST_ITERATIONS
            ):
                wrong = (
                    ErrorCode.UNACCEPTABLE_CREDENTIAL,
                    f"{upsertion.iterations} iterations are too few or too many.",
                )
            if wrong is None and times[upsertion.name, upsertion.mechanism] > 1:
                wrong = (ErrorCode.DUPLICATE_RESOURCE, "One credential cannot be altered twice in a single request.")
            refused.setdefault(upsertion.name, wrong or (ErrorCode.UNSUPPORTED_SASL_MECHANISM, _NO_SASL))
        return response(
            results=[
                response.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)
                for name, (code, text) in refused.items()
            ]
        )


def _misnamed(user: str, mechanism: int) -> tuple[ErrorCode, str] | None:
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user has a name."
    if mechanism not in _FEWEST_ITERATIONS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"There is no SCRAM mechanism {mechanism}."
    return None

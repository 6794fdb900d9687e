"""A journey of a partner with the generated client, as in journey.ts.

It is checked strictly by mypy, and runs against a stack with BASE_URL and API_KEY.
"""

import os
import uuid
from typing import TypeVar

from returns_api import AuthenticatedClient
from returns_api.api.carts import create_cart
from returns_api.api.destinations import list_destinations
from returns_api.api.returns import create_fraud_report, get_return_details, list_returns
from returns_api.models import (
    Cart,
    CartBody,
    CartBodyCartItemType1,
    DestinationList,
    FraudReportBody,
    FraudReportBodyCategoryType0,
    ListReturnsStateItem,
    MessageError,
    ReturnDetails,
    ReturnPage,
)

T = TypeVar("T")

client = AuthenticatedClient(
    base_url=f"{os.environ['BASE_URL']}/api/2026-10",
    token=os.environ["API_KEY"],
    auth_header_name="X-Authorization",
    prefix="",
    raise_on_unexpected_status=True,
)


def of_type(expected: type[T], value: object) -> T:
    """The value of a response, which is one of several types."""
    if not isinstance(value, expected):
        raise SystemExit(f"no {expected.__name__}: {value}")
    return value


page = of_type(
    ReturnPage, list_returns.sync(client=client, state=[ListReturnsStateItem.OPEN], limit=10)
)
if not page.returns:
    raise SystemExit("the shop has no open return")
first = page.returns[0]
details = of_type(ReturnDetails, get_return_details.sync(client=client, return_id=first.id))
if details.order_name != first.order_name:
    raise SystemExit("details of another return")

found = of_type(DestinationList, list_destinations.sync(client=client))
named = [f"{one.id} {one.name}" for one in found.destinations]

body = CartBody(cart=[1, CartBodyCartItemType1(variant_id=2)])
key = str(uuid.uuid4())
carts = [
    of_type(Cart, create_cart.sync(client=client, body=body, idempotency_key=key))
    for _ in range(2)
]
if carts[0].token != carts[1].token:
    raise SystemExit("the repeat made another cart")

wrong = create_fraud_report.sync_detailed(
    first.id, client=client, body=FraudReportBody(category=FraudReportBodyCategoryType0.OTHER)
)
if wrong.status_code != 422:
    raise SystemExit("a missing comment was accepted")
rejection = of_type(MessageError, wrong.parsed).message

print(f"{first.order_name} of {len(page.returns)}; {', '.join(named)}; {rejection}")

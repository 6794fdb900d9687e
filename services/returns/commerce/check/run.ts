import { z } from 'zod';
import { Check, type RunCheckRequest } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { RestockMode } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { invalidField } from '../../../platform/errors.ts';
import { callerShape, id, parseInput, text } from '../../../platform/input.ts';
import { signingKeyOf } from '../../../platform/outbound/signature.ts';
import { loadSettings } from '../../settings.ts';
import { COMMERCE_SECRETS, getEndpoint, requireKeyring } from '../connection-store.ts';
import type { ConnectionDeps } from '../connections.ts';
import type { CommerceClient } from '../http/client.ts';
import { ORDER_CANCEL_RULE } from './cancel-check.ts';
import { type CheckRule, EFFECT_RULES } from './checks.ts';
import { MONEY_RULE } from './money-check.ts';
import { ORDER_FIND_RULE } from './order-check.ts';
import { openSession } from './session.ts';

/** All checks of `commerce check`. */
export const CHECK_RULES: readonly CheckRule[] = [
  ...EFFECT_RULES,
  MONEY_RULE,
  ORDER_CANCEL_RULE,
  ORDER_FIND_RULE,
];

const checkInput = z.object({
  ...callerShape,
  check: z.enum(Check, 'is unknown').refine((check) => check !== Check.UNSPECIFIED, 'is required'),
  providerOrderId: id,
  orderName: text(191),
  orderExists: z.boolean(),
});

export interface CheckResult {
  readonly title: string;
  readonly problems: string[];
}

/**
 * Runs one check of a shop's endpoint. When the endpoint does not answer, this is the result of the check, and the call
 * succeeds.
 *
 * @throws DomainError COMMERCE_CONNECTION_NOT_FOUND; INVALID_ARGUMENT; STATE_FORBIDS without a keyring, and for a shop
 *   that is connected to Shopify.
 */
export async function runCheck(
  deps: ConnectionDeps & { readonly client: CommerceClient },
  request: RunCheckRequest,
): Promise<CheckResult> {
  const input = parseInput(checkInput, request);
  const { shopId, check } = input;
  const keyring = requireKeyring(deps);
  const url = await getEndpoint(deps.pool, shopId);
  const { currency, restockMode } = await loadSettings(deps.pool, shopId);
  const mustRestock = restockMode === RestockMode.PROVIDER;
  const secrets = await COMMERCE_SECRETS.list(deps.pool, { shopId }, keyring);
  const keys = secrets.map(({ value }) => signingKeyOf(value));
  const { providerOrderId: id, orderName: name, orderExists: mustBeFound } = input;
  const order = { id, name, mustBeFound };
  const session = openSession({
    client: deps.client,
    url,
    keys,
    shopId,
    order,
    currency,
    mustRestock,
  });
  const rule = CHECK_RULES.find((one) => one.check === check);
  if (!rule) throw invalidField('check', 'is unknown');
  return { title: rule.title, problems: [...new Set(await rule.run(session))] };
}

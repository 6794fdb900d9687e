import type { DescMethod } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Services } from '../../gateway/services.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { RPC_SERVICES } from '../../services/platform/rpc/callers.ts';
import { fieldOf, reasonOf } from '../../services/platform/values/errors.ts';
import {
  type Ids,
  MISSING_IDS,
  namesThings,
  requestsNaming,
} from '../kit/journeys/foreign-requests.ts';
import { callIn, connectStack, journeyForTests } from '../kit/journeys/journey.ts';
import { idsIn, textOf, wholeShop } from '../kit/journeys/whole-shop.ts';

interface Rpc {
  readonly name: string;
  readonly service: keyof Services;
  readonly method: DescMethod;
}

const RPCS: readonly Rpc[] = (Object.keys(RPC_SERVICES) as (keyof Services)[]).flatMap((service) =>
  RPC_SERVICES[service].methods.map((method) => {
    return { name: `${service}.${method.name}`, service, method };
  }),
);

const journey = journeyForTests();
let theirs: Ids;
beforeAll(async () => {
  theirs = await idsIn(journey, journey.stack.otherShop);
});

/** Whether a caller names its shop. */
function isForShop({ input }: DescMethod): boolean {
  return input.field.shopId !== undefined;
}

function call(services: Services, { service, method }: Rpc, request: object): Promise<unknown> {
  const rpc: (request: object) => Promise<unknown> = Reflect.get(
    services[service],
    method.localName,
  );
  return rpc(request);
}

interface Reply {
  readonly answer?: string;
  readonly code?: string;
  readonly reason?: string | undefined;
  readonly field?: string | undefined;
  readonly message?: string;
}

/** The reply to a call. Ids that an error's text repeats are left out. */
async function replyOf(called: Promise<unknown>): Promise<Reply> {
  try {
    return { answer: textOf(await called) };
  } catch (error) {
    const { code, rawMessage } = ConnectError.from(error);
    const reason = reasonOf(error);
    return {
      code: Code[code],
      reason: REASONS.get(reason ?? -1),
      field: fieldOf(error),
      message: withoutIds(rawMessage),
    };
  }
}

const REASONS = new Map<number, string>(
  Object.entries(ErrorReason).map(([name, value]) => [value, name]),
);

function withoutIds(text: string): string {
  const values = [...Object.values(theirs), ...Object.values(MISSING_IDS)].map(String);
  // The longest id first, because short ones may be parts of others.
  const longestFirst = values.toSorted((one, other) => other.length - one.length);
  return longestFirst.reduce((rest, value) => rest.replaceAll(value, '#'), text);
}

test('the other shop has one object of every kind', () => {
  for (const [name, value] of Object.entries(theirs)) {
    expect([name, Boolean(value)]).toEqual([name, true]);
  }
});

describe("another shop's ids look as if they did not exist", () => {
  let before: string;
  beforeAll(async () => {
    before = await wholeShop(journey, journey.stack.otherShop);
  });

  test.each(RPCS.filter(({ method }) => namesThings(method)))('$name', async (rpc) => {
    const ours = callIn(journey.stack.shop);
    const foreign = requestsNaming(rpc.method, theirs);
    const nobodys = requestsNaming(rpc.method, MISSING_IDS);
    for (const [at, request] of foreign.entries()) {
      const one = await replyOf(call(journey.services, rpc, { ...request, ...ours }));
      const other = await replyOf(call(journey.services, rpc, { ...nobodys[at], ...ours }));
      expect(one).toEqual(other);
      // Either the object was not found or the response is empty. Any other reply means that the id was not checked.
      const wasFound = `${one.reason} ${one.field}`;
      if (one.answer === undefined) expect(wasFound).toMatch(/_NOT_FOUND |\.line_item_id$/);
      else for (const id of Object.values(theirs)) expect(one.answer).not.toContain(textOf(id));
    }
  });

  test('nothing of the other shop has changed', async () => {
    expect(await wholeShop(journey, journey.stack.otherShop)).toBe(before);
  });
});

test.each(RPCS.filter(({ method }) => !namesThings(method)))(
  '$name of one shop shows and changes nothing of the other',
  async (rpc) => {
    const before = await wholeShop(journey, journey.stack.otherShop);
    const [request] = requestsNaming(rpc.method, MISSING_IDS);
    const ours = callIn(journey.stack.shop);
    const { answer = '' } = await replyOf(call(journey.services, rpc, { ...request, ...ours }));
    const { orderName, deliveryId, token, email } = theirs;
    for (const text of [orderName, deliveryId, token, email]) expect(answer).not.toContain(text);
    expect(await wholeShop(journey, journey.stack.otherShop)).toBe(before);
  },
);

describe('callers without the required data', () => {
  test.each(RPCS)('$name rejects a call without the service token', async (rpc) => {
    for (const token of ['', 'w'.repeat(43)]) {
      const { services, close } = connectStack(journey.stack, token);
      const refused = await replyOf(call(services, rpc, callIn(journey.stack.shop)));
      expect(refused.code).toBe('Unauthenticated');
      close();
    }
  });

  test('only RPCs for browsers and platforms have no shop: their link, state, handle or signature says which', () => {
    const others = RPCS.filter(({ method }) => !isForShop(method)).map(({ name }) => name);
    expect(others).toEqual([
      'returns.FindShopperPage',
      'commerce.BeginShopifyInstall',
      'commerce.CompleteShopifyInstall',
      'commerce.ReceiveShopifyWebhook',
    ]);
  });

  test.each(RPCS.filter(({ method }) => isForShop(method)))(
    '$name rejects a call without an actor or a shop',
    async (rpc) => {
      const { shopId, actor } = callIn(journey.stack.shop);
      const bad: [object, string][] = [
        [{ shopId }, 'actor'],
        [{ shopId, actor: { ...actor, kind: 0 } }, 'actor'],
        [{ shopId, actor: { ...actor, id: '' } }, 'actor'],
        [{ actor }, 'shop_id'],
      ];
      for (const [request, field] of bad) {
        expect(await replyOf(call(journey.services, rpc, request))).toMatchObject({
          code: 'InvalidArgument',
          field,
        });
      }
    },
  );
});

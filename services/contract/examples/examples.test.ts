import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../operations.ts';
import { validateBody } from '../validate/validate.ts';
import { EXAMPLES, INSPECTION_EXAMPLES, LOGISTICS_EXAMPLES, RETURN_EXAMPLES } from './examples.ts';
import { REPLAY_EXAMPLES, WEBHOOK_EXAMPLES } from './webhooks.ts';

const details = RETURN_EXAMPLES.getReturnDetails.response;

test.each(OPERATIONS.filter(({ body }) => body))(
  'the service accepts the request of $id',
  ({ id }) => {
    expect(validateBody(id, '2026-10', EXAMPLES[id].request)).toMatchObject({ ok: true });
  },
);

test.each(OPERATIONS)('$id has a response if and only if it has a body', ({ id, success }) => {
  const { response, responses } = EXAMPLES[id];
  expect((response ?? responses) !== undefined).toBe(success.schema !== undefined);
});

describe('the examples are about one return', () => {
  test('which is listed as it is fetched', () => {
    const [row, ...others] = RETURN_EXAMPLES.listReturns.response.returns;
    expect(others).toEqual([]);
    const { created_at, updated_at, destination_id, presentment, ...same } = row ?? {};
    expect(details).toMatchObject({
      ...without(same, 'processing', 'archived_at'),
      destination_id: String(destination_id),
      presentment: without(presentment ?? {}, 'total'),
      created_at: plain(created_at),
      updated_at: plain(updated_at),
    });
  });

  test('whose lines were graded and assessed as the details say', () => {
    const { gradeItems, assessDispositions } = INSPECTION_EXAMPLES;
    const ofLines = details.line_items.map(({ line_item_id, condition, disposition }) => ({
      graded: { line_item_id, condition },
      assessed: { line_item_id, ...disposition },
    }));
    expect(gradeItems.response).toEqual(ofLines.map(({ graded }) => graded));
    expect(assessDispositions.response).toEqual(ofLines.map(({ assessed }) => assessed));
    for (const [at, item] of gradeItems.request.items.entries()) {
      const { category, ...fields } = item;
      const { line_item_id, condition } = gradeItems.response[at] ?? {};
      expect({ line_item_id, ...condition }).toMatchObject(fields);
    }
  });

  test('whose label arrived, at a destination of the shop', () => {
    const { updateLabel, recordLabel, listDestinations, getDestination } = LOGISTICS_EXAMPLES;
    const { id, return_id, ...label } = updateLabel.response;
    expect(details.labels).toEqual([label]);
    expect({ id, return_id }).toEqual({ id: recordLabel.response.id, return_id: details.id });
    const { destinations } = listDestinations.response;
    expect(destinations.find(({ id: one }) => String(one) === details.destination_id)).toEqual(
      getDestination.response,
    );
  });

  test('whose refund is the effect, and whose amounts follow the rule of the interface', () => {
    const [effect] = RETURN_EXAMPLES.listEffects.response.effects;
    expect(effect).toMatchObject({ amount: details.refund, currency: details.currency });
    const { presentment: of } = details;
    const pence = (...amounts: string[]) =>
      amounts.reduce((sum, amount) => sum + Math.round(Number(amount) * 100), 0);
    expect(pence(of.refund, of.return_credit_total, of.handling_fee)).toBe(
      pence(of.return_total, of.return_shipping_total, of.credit_shipping_total),
    );
    expect(pence(...details.line_items.map(({ refund }) => refund), `-${of.handling_fee}`)).toBe(
      pence(details.refund),
    );
  });

  test('whose event a webhook received', () => {
    const { createWebhook, getWebhook, listWebhooks, listDeliveries, replayDelivery } =
      WEBHOOK_EXAMPLES;
    const { secret, warnings, ...fields } = createWebhook.response;
    expect(getWebhook.response).toMatchObject(fields);
    expect(listWebhooks.response).toEqual([getWebhook.response]);
    const [delivery] = listDeliveries.response.deliveries;
    expect(delivery).toMatchObject({ return_id: details.id, trigger: fields.trigger });
    expect(replayDelivery.response).toMatchObject({ id: delivery?.id, state: 'waiting' });
    const [newest, earlier] = WEBHOOK_EXAMPLES.getWebhookSecret.response.secrets;
    expect(newest).toEqual(WEBHOOK_EXAMPLES.rotateWebhookSecret.response);
    expect(earlier?.secret).toBe(secret);
  });
});

test('a replay is started as it was counted, and goes on', () => {
  const { previewReplay, startReplay, getReplay, listReplays, cancelReplay } = REPLAY_EXAMPLES;
  const { matched, replayable, not_replayable } = previewReplay.response;
  expect(matched).toBe(not_replayable.reduce((sum, { count }) => sum + count, replayable));
  expect(startReplay.response).toMatchObject({ total: replayable, filter: startReplay.request });
  expect(listReplays.response.replays).toEqual([getReplay.response]);
  const { id, total, done } = getReplay.response;
  expect(cancelReplay.response).toMatchObject({ id, total, done, state: 'cancelled' });
});

function without(value: object, ...keys: string[]): object {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)));
}

/** Return details have times without an offset. */
function plain(time: string | null | undefined): string {
  return String(time).replace('T', ' ').replace('+00:00', '');
}

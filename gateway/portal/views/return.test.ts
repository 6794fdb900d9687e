import { describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleReturn } from '../../../services/contract/sample-return.ts';
import { returnView } from './return.ts';
import { processingEffects } from './return-effects.ts';

const view = (ret: Return) =>
  returnView(ret, { destinationName: 'Leeds', possible: [], processingDoes: [] });

describe('a return in the portal', () => {
  test('has every amount in both currencies, and its labels newest first', () => {
    const shown = view(sampleReturn(1n));
    const [refund] = (shown.amounts ?? []).filter(({ name }) => name === 'refund');
    expect(refund?.amount?.shop).toBe('40.00');
    expect(refund?.amount?.presentment).toMatch(/^\d+\.\d\d$/);
    expect(shown.lines?.[0]?.refund?.shop).toBe('42.00');
    expect(shown.labels?.[0]?.status).toBe(shown.summary?.labelStatus);
  });

  test('says what processing would do', () => {
    const sentences = processingEffects(sampleReturn(1n));
    expect(sentences[0]).toMatch(
      /^\d+\.\d\d [A-Z]{3} is refunded to the shopper's original payment method\.$/,
    );
    expect(sentences).toHaveLength(2);
  });

  test.each([ReturnState.CLOSED, ReturnState.REVIEW, ReturnState.CANCELLED])(
    'says nothing about processing in state %s',
    (state) => {
      expect(processingEffects({ ...sampleReturn(1n), state })).toEqual([]);
    },
  );

  test('shows the refunds that processing made', () => {
    const { effects } = view(sampleReturn(1n, ReturnState.CLOSED));
    expect(effects).toMatchObject([{ kind: 'refund', money: { currency: expect.any(String) } }]);
  });
});

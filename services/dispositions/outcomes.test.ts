import { timestampDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type DispositionsBench,
  startDispositionsBench,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor } from '../../test/kit/services/running-service.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

describe('an assessment without an outcome', () => {
  test('uses the shop’s default outcome and the current time when they are absent', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [first] = await bench.assess(shopId, [{ lineItemId: lines[0] ?? 0n }]);
    expect(first?.disposition).toMatchObject({ outcome: DispositionOutcome.BACK_TO_STOCK });
    expect(first?.disposition?.note).toBeUndefined();
    const time = first?.disposition?.inspectedAt;
    expect(Math.abs(Date.now() - (time ? timestampDate(time).getTime() : 0))).toBeLessThan(10_000);

    const defaultOutcome = DispositionOutcome.RESALE_HOLD;
    await bench.client.updateSettings({ shopId, actor, settings: { defaultOutcome } });
    const [second] = await bench.assess(shopId, [{ lineItemId: lines[1] ?? 0n }]);
    expect(second?.disposition?.outcome).toBe(defaultOutcome);
  });

  test('keeps the outcome that a line has when an assessment names none', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [assessed, fresh] = lines.map((lineItemId) => ({ lineItemId }));
    const { RECYCLE: outcome, DONATE, BACK_TO_STOCK } = DispositionOutcome;
    await bench.assess(shopId, [{ lineItemId: 0n, ...assessed, outcome }]);
    const items = [
      { lineItemId: 0n, ...assessed, note: 'worn' },
      { lineItemId: 0n, ...fresh },
    ];
    expect(await bench.assess(shopId, items)).toMatchObject([
      { disposition: { outcome, note: 'worn' } },
      { disposition: { outcome: BACK_TO_STOCK } },
    ]);
    await bench.assess(shopId, [{ lineItemId: 0n, ...assessed, outcome: DONATE }]);
    expect(await bench.assess(shopId, [{ lineItemId: 0n, ...assessed }])).toMatchObject([
      { disposition: { outcome: DONATE } },
    ]);
    expect(bench.handedTo(shopId).at(-1)?.disposition).toMatchObject({ outcome: DONATE });
  });
});

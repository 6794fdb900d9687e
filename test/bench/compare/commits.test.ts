import { describe, expect, test } from '@jest/globals';
import { comparedFigures, comparedTable, parseOutput, turnsOf } from './commits.ts';

const OUTPUT = `
throughput: Closed loop, 2000 events on their way.
    73.9 %  14 × 685.992 ms (0.554 to plan), 47.7 rows  rms_webhooks: select 1: 2
  Outpost: node test/bench/peers/outpost.ts --burst
  deliveries a second: 1,286 (193 to 291)   goal ≥ 2,000: MISSED
  CPU-s per 1,000, all processes: 2.53 (2.20 to 3.69)   goal ≤ 0.80: MISSED
  CPU-s per 1,000, by process: webhooks 0.95, postgres 0.68
  CPU-s per 1,000, to Outpost: 0.60 (1.20 and 2.00; without sink and publisher 0.56: 1.00 and 1.80)

overload: Capacity.
  reads: capacity: 900/s
  idle: 7.5 %
other: not asked for.
  figure: 5

| Row | Figure | Measured | Goal | |
| throughput | deliveries a second | 9 | | |
`;

describe('the comparison of two commits', () => {
  test('alternates which commit is first, pair by pair', () => {
    expect(turnsOf(3)).toEqual(['ours', 'theirs', 'theirs', 'ours', 'ours', 'theirs']);
  });

  test('reads the figures from the output of a bench, row by row', () => {
    expect(Object.fromEntries(parseOutput(OUTPUT, ['throughput', 'overload']))).toEqual({
      'throughput | deliveries a second': 1_286,
      'throughput | CPU-s per 1,000, all processes': 2.53,
      'throughput | CPU-s per 1,000, to Outpost': 0.6,
      'overload | reads: capacity': 900,
      'overload | idle': 7.5,
    });
  });

  test('compares pair by pair the figures that every run has', () => {
    const run = (rate: number, more: readonly (readonly [string, number])[] = []) =>
      new Map([['row | rate', rate], ...more]);
    const compared = comparedFigures(
      [run(200, [['row | fresh', 1]]), run(300, [['row | fresh', 1]])],
      [run(100), run(200)],
    );
    expect(compared).toMatchObject([
      { figure: 'row | rate', ours: { median: 250 }, ratio: { median: 1.75, low: 1.5, high: 2 } },
    ]);
    expect(comparedTable(compared, 'abc1234').split('\n')).toEqual([
      '| Row | Figure | this checkout | abc1234 | ratio |',
      '|---|---|---|---|---|',
      '| row | rate | 250 (200 to 300) | 150 (100 to 200) | 1.75 (1.5 to 2) |',
    ]);
  });
});

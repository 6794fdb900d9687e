import { describe, expect, test } from '@jest/globals';
import { absentFigures, commandOf, ratios } from './peer.ts';

const ours = { perSecond: 1_500, cpu: 1.2, product: 1 };
const theirs = { version: 'Outpost f67ae01', perSecond: 1_000, cpu: 2, product: 1.8 };
const burst = { goals: { perSecond: 1.5, cpu: 0.5 }, ours };

describe('the figures of a comparison with Outpost', () => {
  test('are ratios with both values, and name the command', () => {
    const figures = ratios(burst, theirs, commandOf(undefined, false));
    expect(figures).toMatchObject([
      { name: 'deliveries a second, to Outpost', value: '1.50 (1500 and 1000)', met: true },
      {
        name: 'CPU-s per 1,000, to Outpost',
        value: '0.60 (1.20 and 2.00; without sink and publisher 0.56: 1.00 and 1.80)',
        met: false,
      },
      { value: 'Outpost f67ae01, `node test/bench/peers/outpost.ts --burst`' },
    ]);
  });

  test('have times but no rate in an open loop, because the rate is the same for both', () => {
    const figures = ratios(
      { goals: { cpu: 1 }, ours, rate: 200 },
      { ...theirs, p50: 31.7, p99: 58.94 },
      commandOf(200, false),
    );
    expect(figures.map(({ name }) => name)).toEqual(['CPU-s per 1,000, to Outpost', 'Outpost']);
    expect(figures[1]?.value).toContain('p50 31.7 ms, p99 58.9 ms; ');
    expect(figures[1]?.value).toContain('--per-second 200');
  });

  test('report why Outpost cannot be run, and show its goals without a result', () => {
    const figures = absentFigures(
      burst,
      'go: reading https://registry.example/x:\n  403 Forbidden',
      commandOf(undefined, true),
    );
    expect(figures.map(({ goal, met }) => [goal, met])).toEqual([
      ['≥ 1.50', undefined],
      ['≤ 0.50', undefined],
      [undefined, undefined],
    ]);
    expect(figures[2]?.value).toBe(
      'Outpost could not be installed: go: reading the registry 403 Forbidden (`node test/bench/peers/outpost.ts --burst --quick`)',
    );
  });
});

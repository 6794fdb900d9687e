import { describe, expect, test } from '@jest/globals';
import {
  backgroundLoadFigure,
  ownOf,
  parseMachine,
  shareBetween,
  sharesOf,
} from './background-load.ts';
import { parseStat } from './work.ts';

const reading = (at: number, idle: number, own: number) => ({ at, idle, own, cores: 2 });

describe('the background load', () => {
  test('is the busy time of all cores minus the CPU time of the bench', () => {
    // Two cores for 5 s are 10 core-seconds: 4 were idle and the bench used 5.5.
    const share = shareBetween(reading(100, 50, 7), reading(105, 54, 12.5));
    expect(share).toEqual({ machine: 10, others: 0.5 });
  });

  test('is 0 when rounding gives slightly less than 0', () => {
    expect(shareBetween(reading(0, 0, 0), reading(1, 1, 1.01)).others).toBe(0);
  });

  test('is the mean over all slices of a row, and names the worst slice', () => {
    const shares = sharesOf([
      { others: 0.25, machine: 10 },
      { others: 0.25, machine: 40 },
    ]);
    expect(shares).toEqual({ mean: 0.01, worst: 0.025, slices: 2 });
    expect(backgroundLoadFigure(shares)).toMatchObject({
      value: '1.0 % (2.5 % in the worst of 2 slices)',
      met: true,
    });
    expect(backgroundLoadFigure({ ...shares, mean: 0.02 }).met).toBe(true);
    expect(backgroundLoadFigure({ ...shares, mean: 0.0201 }).met).toBe(false);
  });

  test('counts waiting for a disk as idle', () => {
    const text = 'cpu  10 0 20 300 50 0 7 9 0 0\ncpu0 5 0 10 150 25\ncpu1 5 0 10 150 25\nintr 1\n';
    expect(parseMachine(text)).toEqual({ cores: 2, idle: 3.5 });
  });

  test('does not count threads of the kernel, and adds the cut ticks of two processes', () => {
    const stat = (parent: number, flags: number, own: number, ended: number) =>
      `(a name) S ${parent} 0 0 0 0 ${flags} 0 0 0 0 ${own} 0 ${ended} 0 20 0 1 0 4711 0`;
    const all = [
      parseStat(10, `10 ${stat(1, 0x400000, 100, 20)}`),
      parseStat(11, `11 ${stat(10, 0x400000, 300, 0)}`),
      parseStat(12, `12 ${stat(1, 0x400000, 5_000, 0)}`),
      parseStat(13, `13 ${stat(2, 0x208040, 50, 0)}`),
    ];
    expect(ownOf(10, all)).toBeCloseTo(4.72, 5);
    expect(all[0]).toMatchObject({ parent: 1, began: 4_711, own: 1, ended: 0.2, isKernel: false });
  });
});

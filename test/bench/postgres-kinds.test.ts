import { describe, expect, test } from '@jest/globals';
import { cpuByKind, ENDED } from './postgres-kinds.ts';
import { cpuOfTree, type ProcessTime } from './work.ts';

const ROOT = 100;
const process = (pid: number, own: number, ended = 0, began = pid): ProcessTime => ({
  pid,
  own,
  ended,
  began,
  isKernel: false,
  parent: pid === ROOT ? 1 : ROOT,
});
const kinds = new Map([
  [101, 'checkpointer'],
  [102, 'webhooks'],
  [103, 'webhooks'],
  [105, 'returns'],
]);

describe('CPU time of PostgreSQL by kind of process', () => {
  const before = [
    process(ROOT, 1, 10),
    process(101, 5),
    process(102, 20),
    // Exits during the slice, after using 2 more seconds.
    process(104, 30),
  ];
  const after = [
    process(ROOT, 1.5, 10 + 32 + 4),
    process(101, 6),
    process(102, 23),
    // Starts during the slice.
    process(103, 1),
    process(105, 0.5),
  ];
  const sums = cpuByKind(ROOT, before, after, kinds);

  test('is counted from the start of the slice, or of the process', () => {
    expect(Object.fromEntries(sums)).toEqual({
      postmaster: 0.5,
      checkpointer: 1,
      webhooks: 4,
      returns: 0.5,
      [ENDED]: 6,
    });
  });

  test('adds up to the CPU time of the server, including children that exited during the slice', () => {
    const whole = cpuOfTree(ROOT, after) - cpuOfTree(ROOT, before);
    expect([...sums.values()].reduce((sum, value) => sum + value, 0)).toBeCloseTo(whole);
  });

  test('distinguishes a process from an earlier one with the same pid', () => {
    const reused = [process(ROOT, 1, 30), process(104, 2, 0, 999)];
    const found = cpuByKind(ROOT, [process(ROOT, 1, 0), process(104, 30)], reused, kinds);
    expect(found.get('unnamed')).toBe(2);
    expect(found.get(ENDED)).toBe(0);
  });

  test('leaves out processes that do not belong to the server', () => {
    const other = { ...process(900, 50), parent: 1 };
    expect(cpuByKind(ROOT, [process(ROOT, 1)], [process(ROOT, 2), other], kinds).size).toBe(2);
  });
});

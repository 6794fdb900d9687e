import { ServerResponse } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { HttpRefusal } from '../errors.ts';
import { createBodyBudget } from './body-budget.ts';

const MIB = 1024 * 1024;
const sizes = { process: 64 * MIB, caller: 32 * MIB };

function statusOf(work: () => void): number {
  try {
    work();
    return 200;
  } catch (error) {
    if (error instanceof HttpRefusal) return error.error.status;
    throw error;
  }
}

describe('the budget of bodies', () => {
  test('a caller may have the largest body, and not a byte more', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const [one, two] = [budget.open('a'), budget.open('a')];
    expect(statusOf(() => one.growTo(32 * MIB))).toBe(200);
    expect(statusOf(() => two.growTo(1))).toBe(429);
    one.release();
    expect(statusOf(() => two.growTo(1))).toBe(200);
  });

  test('a refusal says when to come back', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const growTo = (caller: string) => budget.open(caller).growTo(32 * MIB);
    growTo('a');
    for (const caller of ['a', 'b']) {
      expect(() => growTo(caller)).toThrow(
        expect.objectContaining({ headers: { 'Retry-After': expect.stringMatching(/^[1-9]/) } }),
      );
    }
  });

  test('large bodies leave a quarter to callers with small ones', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    budget.open('a').growTo(32 * MIB);
    budget.open('b').growTo(16 * MIB);
    expect(statusOf(() => budget.open('c').growTo(2 * MIB))).toBe(503);
    for (let caller = 0; caller < 16; caller += 1) {
      expect(statusOf(() => budget.open(`small ${caller}`).growTo(MIB))).toBe(200);
    }
    expect(statusOf(() => budget.open('late').growTo(1))).toBe(503);
  });

  test('counts nothing for a request whose client has left already', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const res = Object.assign(Object.create(ServerResponse.prototype), { _closed: true });
    const held = budget.open('a', res);
    held.growTo(MIB);
    expect(budget.heldBytes()).toBe(0);
  });

  test('counts what is held, whatever came and went', () => {
    const step = fc.record({
      caller: fc.constantFrom('a', 'b', 'c'),
      total: fc.integer({ min: 0, max: 40 * MIB }),
      isOver: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const budget = createBodyBudget(sizes, { of: 'bodies' });
        let expected = 0;
        const open = steps.map(({ caller, total, isOver }) => {
          const held = budget.open(caller);
          if (statusOf(() => held.growTo(total)) === 200 && !isOver) expected += total;
          if (isOver) held.release();
          return held;
        });
        expect(budget.heldBytes()).toBe(expected);
        expect(expected).toBeLessThanOrEqual(sizes.process);
        for (const held of open) held.release();
        expect(budget.heldBytes()).toBe(0);
      }),
    );
  });
});

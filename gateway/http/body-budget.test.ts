import { ServerResponse } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { HttpError } from '../errors.ts';
import { createBodyBudget } from './body-budget.ts';

const MIB = 1024 * 1024;
const sizes = { process: 64 * MIB, shop: 40 * MIB, caller: 32 * MIB };

function statusOf(work: () => void): number {
  try {
    work();
    return 200;
  } catch (error) {
    if (error instanceof HttpError) return error.error.status;
    throw error;
  }
}

describe('the budget of bodies', () => {
  test('a caller may send the largest body, and no byte more', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const [one, two] = [budget.open({ caller: 'a' }), budget.open({ caller: 'a' })];
    expect(statusOf(() => one.growTo(32 * MIB))).toBe(200);
    expect(statusOf(() => two.growTo(1))).toBe(429);
    one.release();
    expect(statusOf(() => two.growTo(1))).toBe(200);
  });

  test('a rejected request gets Retry-After', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const growTo = (caller: string) => budget.open({ caller }).growTo(32 * MIB);
    growTo('a');
    for (const caller of ['a', 'b']) {
      expect(() => growTo(caller)).toThrow(
        expect.objectContaining({ headers: { 'Retry-After': expect.stringMatching(/^[1-9]/) } }),
      );
    }
  });

  test('large bodies leave a quarter to callers with small bodies', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    budget.open({ caller: 'a' }).growTo(32 * MIB);
    budget.open({ caller: 'b' }).growTo(16 * MIB);
    expect(statusOf(() => budget.open({ caller: 'c' }).growTo(2 * MIB))).toBe(503);
    for (let caller = 0; caller < 16; caller += 1) {
      expect(statusOf(() => budget.open({ caller: `small ${caller}` }).growTo(MIB))).toBe(200);
    }
    expect(statusOf(() => budget.open({ caller: 'late' }).growTo(1))).toBe(503);
  });

  test('the callers of one shop together cannot exceed the budget of the shop; other shops are not affected', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const open = (caller: string, shop: string) => budget.open({ caller, shop });
    expect(statusOf(() => open('a', '1').growTo(32 * MIB))).toBe(200);
    const second = open('b', '1');
    expect(statusOf(() => second.growTo(8 * MIB))).toBe(200);
    expect(statusOf(() => second.growTo(8 * MIB + 1))).toBe(429);
    expect(statusOf(() => open('c', '1').growTo(1))).toBe(429);
    expect(statusOf(() => open('d', '2').growTo(8 * MIB))).toBe(200);
    second.release();
    expect(statusOf(() => open('c', '1').growTo(1))).toBe(200);
  });

  test('bytes that the client has read are released immediately', () => {
    const budget = createBodyBudget(sizes, { of: 'answers' });
    const reserved = budget.open({ caller: 'a' });
    reserved.growTo(32 * MIB);
    reserved.shrinkTo(12 * MIB);
    expect(budget.reservedBytes()).toBe(12 * MIB);
    expect(statusOf(() => budget.open({ caller: 'a' }).growTo(20 * MIB))).toBe(200);
    reserved.release();
    expect(budget.reservedBytes()).toBe(20 * MIB);
  });

  test('when the budget is used up, slowly read responses are aborted, the slowest first', () => {
    const clock = { ms: 0 };
    const budget = createBodyBudget(sizes, { of: 'answers', now: () => clock.ms });
    const aborted: string[] = [];
    const open = (caller: string, bytes: number) => {
      const reserved = budget.open({ caller, abort: () => aborted.push(caller) });
      reserved.growTo(bytes);
      return reserved;
    };
    const [slow, fast] = [open('slow', 20 * MIB), open('fast', 12 * MIB)];
    open('silent', 16 * MIB);
    clock.ms += 4_999;
    expect(statusOf(() => open('late', 16 * MIB))).toBe(503);
    clock.ms += 1;
    slow.shrinkTo(18 * MIB);
    fast.shrinkTo(5 * MIB);
    open('late', 20 * MIB);
    expect(aborted).toEqual(['silent']);
    open('latest', 20 * MIB);
    expect(aborted).toEqual(['silent', 'slow']);
    // Neither a response that is read fast nor one that has just begun is aborted.
    expect(statusOf(() => open('last', 20 * MIB))).toBe(503);
    expect(budget.reservedBytes()).toBe(45 * MIB);
  });

  test('counts nothing for a request whose client has disconnected already', () => {
    const budget = createBodyBudget(sizes, { of: 'bodies' });
    const res = Object.assign(Object.create(ServerResponse.prototype), { _closed: true });
    const reserved = budget.open({ caller: 'a', res });
    reserved.growTo(MIB);
    expect(budget.reservedBytes()).toBe(0);
  });

  test('counts correctly after any sequence of changes', () => {
    const step = fc.record({
      caller: fc.constantFrom('a', 'b', 'c'),
      shop: fc.constantFrom('1', '2'),
      total: fc.integer({ min: 0, max: 40 * MIB }),
      isReleased: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const budget = createBodyBudget(sizes, { of: 'bodies' });
        let expected = 0;
        const open = steps.map(({ caller, shop, total, isReleased }) => {
          const reserved = budget.open({ caller, shop });
          if (statusOf(() => reserved.growTo(total)) === 200 && !isReleased) expected += total;
          if (isReleased) reserved.release();
          return reserved;
        });
        expect(budget.reservedBytes()).toBe(expected);
        expect(expected).toBeLessThanOrEqual(sizes.process);
        for (const reserved of open) reserved.release();
        expect(budget.reservedBytes()).toBe(0);
      }),
    );
  });
});

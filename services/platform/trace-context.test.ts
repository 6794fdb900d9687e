import { describe, expect, test } from '@jest/globals';
import { createContextKey, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AsyncContextManager, contextFrom, traceparentOf } from './trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

describe('traceparent', () => {
  test('is parsed and written', () => {
    const read = contextFrom(`00-${TRACE}-${SPAN}-01`);
    expect(trace.getSpanContext(read)).toEqual({
      traceId: TRACE,
      spanId: SPAN,
      traceFlags: 1,
      isRemote: true,
    });
    expect(traceparentOf(read)).toBe(`00-${TRACE}-${SPAN}-01`);
  });

  test('of a later version may have more fields', () => {
    expect(traceparentOf(contextFrom(`01-${TRACE}-${SPAN}-00-more`))).toBe(
      `00-${TRACE}-${SPAN}-00`,
    );
  });

  test.each([
    '',
    'nonsense',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}`,
  ])('%j names no span', (text) => {
    expect(contextFrom(text)).toBe(ROOT_CONTEXT);
  });

  test('is empty without a span', () => {
    expect(traceparentOf(ROOT_CONTEXT)).toBe('');
  });
});

describe('the active context', () => {
  const key = createContextKey('test');
  const manager = new AsyncContextManager();
  const one = ROOT_CONTEXT.setValue(key, 'one');
  const two = ROOT_CONTEXT.setValue(key, 'two');

  test('stays with its own work across awaits', async () => {
    const read = async () => {
      await new Promise((done) => setImmediate(done));
      return manager.active().getValue(key);
    };
    expect(await Promise.all([manager.with(one, read), manager.with(two, read), read()])).toEqual([
      'one',
      'two',
      undefined,
    ]);
  });

  test('is bound to a function', () => {
    const bound = manager.bind(one, (word: string) => [word, manager.active().getValue(key)]);
    expect(manager.with(two, () => bound('bound'))).toEqual(['bound', 'one']);
    expect(manager.bind(one, 5)).toBe(5);
  });
});

import { describe, expect, test } from '@jest/globals';
import { addressWithoutSecrets, changesOf } from './field-change.ts';

describe('changes of fields', () => {
  test('are those whose values differ', () => {
    const fields = {
      url: ['https://a.example/', 'https://b.example/'],
      status: ['active', 'active'],
      topic: [undefined, 'return'],
      trigger: ['return.closed', undefined],
      name: ['', undefined],
    } as const;
    expect(changesOf(fields)).toEqual([
      { field: 'url', from: 'https://a.example/', to: 'https://b.example/' },
      { field: 'topic', to: 'return' },
      { field: 'trigger', from: 'return.closed' },
    ]);
  });

  test('are short, and can be stored', () => {
    const [change] = changesOf({ name: [`a\0\ud800b`, 'x'.repeat(400)] });
    expect(change?.from).toBe('a\ufffd\ufffdb');
    expect(change?.to).toBe(`${'x'.repeat(300)}…`);
  });
});

describe('the address of a webhook in the audit log', () => {
  test.each([
    ['https://example.com/webhooks/returns', 'https://example.com/webhooks/returns'],
    ['https://example.com:8443/', 'https://example.com:8443/'],
    ['https://user:pass@example.com/a', 'https://example.com/a'],
    ['https://example.com/a?token=s3cret&v=1#part', 'https://example.com/a?token=…&v=…'],
    [
      'https://hooks.slack.example/services/T00000000/B00000000/x1x2x3x4x5x6x7x8x9x0x1x2',
      'https://hooks.slack.example/services/T00000000/B00000000/x1x2…',
    ],
    ['no address', ''],
  ])('%s has no secret', (url, shown) => {
    expect(addressWithoutSecrets(url)).toBe(shown);
  });
});

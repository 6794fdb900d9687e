import { expect, test } from '@jest/globals';
import { webhooksText, webhookText } from './name.ts';

const plain = { id: '3', description: '', url: 'https://hooks.example.com:8443/in' };
const described = { ...plain, id: '4', description: 'webhook 3' };

test('a webhook is named by its number, or by its description with number and host', () => {
  expect(webhookText(plain)).toBe('webhook 3');
  expect(webhookText(plain, { word: 'Webhook', event: 'return.closed' })).toBe(
    'Webhook 3 (return.closed)',
  );
  expect(webhookText(described, { word: 'Webhook' })).toBe(
    'webhook 3 (webhook 4, hooks.example.com:8443)',
  );
  expect(webhookText(described, { event: 'return.closed' })).toBe(
    'webhook 3 (webhook 4, hooks.example.com:8443, return.closed)',
  );
});

test('several are listed as the beginning of a sentence', () => {
  expect(webhooksText([plain])).toBe('Webhook 3');
  expect(webhooksText([plain, described, plain])).toBe(
    'Webhook 3, webhook 3 (webhook 4, hooks.example.com:8443), webhook 3',
  );
});

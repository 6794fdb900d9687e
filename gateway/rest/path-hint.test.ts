import { describe, expect, test } from '@jest/globals';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { pathHint } from './path-hint.ts';

const TODAY = new Date('2026-11-20T00:00:00Z');
const hint = (target: string) => pathHint(target, TODAY);
const REMOVE = 'remove the / at the end of the path: ';

describe('the hint of an unknown path', () => {
  test.each([
    ['/api/2026-10/webhooks/', '/api/2026-10/webhooks'],
    ['/api/v1/webhooks/12/?limit=1', '/api/v1/webhooks/12'],
    ['/api/unstable/warehouse/returns//', '/api/unstable/warehouse/returns'],
  ])('removes the / at the end: %s', (target, path) => {
    expect(hint(target)).toBe(`${REMOVE}${path}`);
  });

  test.each([
    // A mistyped name.
    ['/api/2026-10/webhook', '/api/2026-10/webhooks'],
    ['/api/2026-10/Webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-10//webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-10/web-hooks/12/deliverys', '/api/2026-10/webhooks/12/deliveries'],
    ['/api/2026-10/webhooks/12/rotate', '/api/2026-10/webhooks/12/secret/rotate'],
    ['/api/2026-10/webhooks/12/retry', '/api/2026-10/webhooks/12/deliveries/retry'],
    ['/api/2026-10/carts', '/api/2026-10/cart'],
    ['/api/2026-10/destination/3', '/api/2026-10/destinations/3'],
    // A part that was left out.
    ['/api/2026-10/returns', '/api/2026-10/warehouse/returns'],
    ['/api/2026-10/return/details', '/api/2026-10/warehouse/return/details'],
    ['/api/2026-10/return/7/process', '/api/2026-10/warehouse/return/7/process'],
    // One return.
    ['/api/2026-10/returns/7', '/api/2026-10/warehouse/return/details?return_id=7'],
    ['/api/2026-10/warehouse/return/7', '/api/2026-10/warehouse/return/details?return_id=7'],
    // The version.
    ['/api/v2/webhooks', '/api/2026-10/webhooks'],
    ['/api/2026-9/webhooks', '/api/2026-10/webhooks'],
    ['/api/latest/webhooks/12', '/api/2026-10/webhooks/12'],
    // Outside of /api.
    ['/webhooks', '/api/2026-10/webhooks'],
    ['/v1/webhooks', '/api/v1/webhooks'],
    ['/API/v1/webhooks', '/api/v1/webhooks'],
    ['https://returns.example.com/api/v1/webhook', '/api/v1/webhooks'],
  ])('names what is meant: %s', (target, path) => {
    expect(hint(target)).toBe(`did you mean ${path}?`);
  });

  test('leaves an id open that the path lacks', () => {
    expect(hint('/api/2026-10/deliveries')).toBe(
      'did you mean /api/2026-10/webhooks/{id}/deliveries?',
    );
  });

  test.each([
    '/',
    '/api',
    '/api/2026-10',
    '/api/2026-10/12',
    '/api/2026-10/nothing',
    '/webhook',
    '/api/2026-10/webhooks/12/replays',
    '/api/2026-10/webhooks/new',
    '/favicon.ico',
    `/api/v1/webhooks/${'x'.repeat(200)}`,
  ])('is absent when nothing is similar: %s', (target) => {
    expect(hint(target)).toBeUndefined();
  });

  test('is in ASCII, whatever the path is', () => {
    expect(hint('/api/2026-10/webhöoks\r\n')).toMatch(/^[\x20-\x7e]*$/);
  });

  test('knows the path of every operation', () => {
    for (const { path } of OPERATIONS) {
      expect(hint(`/api/v1${path.replaceAll(/\{\w+\}/g, '5')}/`)).toMatch(
        new RegExp(`^${REMOVE}/api/v1/`),
      );
    }
  });
});

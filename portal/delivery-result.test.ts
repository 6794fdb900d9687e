import { describe, expect, test } from '@jest/globals';
import { errors } from 'undici';
import {
  describeFailure,
  errorForPartners,
  NOT_ALLOWED,
} from '../services/platform/outbound/failure.ts';
import { Deadline } from '../services/webhooks/sender/pool.ts';
import { adviceOf, answerText } from './src/pages/deliveries/advice.ts';
import { isSuccess, resultText } from './src/pages/deliveries/delivery.ts';

const LATE = 'no complete answer within 15000 ms';
const UNKNOWN =
  "The receiver's system did not answer. Check that the address is right and reachable from the internet.";

/** The advice for an attempt without a response that failed with an error code. */
function adviceForCode(code: string): string {
  const stored = describeFailure(Object.assign(new Error(code), { code }));
  return adviceOf({ status: 0, error: errorForPartners(stored) });
}

describe('the result of an attempt', () => {
  test.each([
    [{ status: 200, error: '' }, 'HTTP 200'],
    [{ status: 200, error: LATE }, 'HTTP 200, incomplete'],
    [{ status: 500, error: 'answered 500' }, 'HTTP 500'],
    [{ status: 500, error: 'connection reset' }, 'HTTP 500, incomplete'],
    [{ status: 0, error: 'connection refused' }, 'connection refused'],
    [{ status: 0, error: '' }, 'no response'],
  ])('of %j is %s', (outcome, text) => {
    expect(resultText(outcome)).toBe(text);
  });

  test.each([
    [204, '', 'The receiver accepted it (204)'],
    [302, 'answered 302', "The receiver's system says that the address has moved (302)"],
    [400, 'answered 400', "The receiver's system says that it did not accept the request (400)"],
    [403, 'answered 403', "The receiver's system says that the request is not allowed (403)"],
    [404, 'answered 404', "The receiver's system says that this address does not exist (404)"],
    [
      405,
      'answered 405',
      "The receiver's system says that it takes no such requests at this address (405)",
    ],
    [410, 'answered 410', "The receiver's system says that this address is gone permanently (410)"],
    [429, 'answered 429', "The receiver's system says that it gets too many requests (429)"],
    [503, 'answered 503', "The receiver's system says that it had an error (503)"],
    [500, 'connection reset', 'No complete answer: connection reset'],
    [0, 'connection refused', 'No answer: connection refused'],
  ])('of status %i, %s, as a sentence is %s', (status, error, text) => {
    expect(answerText({ status, error })).toBe(text);
  });

  test('is a success only for a complete response with a status of 200 to 299', () => {
    expect(isSuccess({ status: 204, error: '' })).toBe(true);
    expect(isSuccess({ status: 200, error: 'connection reset' })).toBe(false);
    expect(isSuccess({ status: 302, error: 'answered 302' })).toBe(false);
  });
});

describe('the advice for a failed attempt', () => {
  test('is empty after a success', () => {
    expect(adviceOf({ status: 200, error: '' })).toBe('');
  });

  test.each([
    [200, LATE, /^The answer was not complete within 15 seconds\./],
    [0, LATE, /^The receiver's system did not answer within 15 seconds\./],
    [200, `${LATE}: its end is missing`, /^The answer was not complete within 15 seconds\./],
    [
      200,
      `${LATE}: its end is missing, because it has no Content-Length`,
      /must send a Content-Le/,
    ],
    [200, 'connection reset', /^The answer was not complete\./],
    [200, 'answer is too long', /short or empty body/],
    [410, 'answered 410', /makes the webhook inactive/],
    [404, 'answered 404', /Check the address of the webhook/],
    [302, 'answered 302', /Redirects are not followed/],
    [503, 'answered 503', /Its logs say more/],
    [400, 'answered 400', /status of 200 to 299/],
  ])('status %i, %s', (status, error, advice) => {
    expect(adviceOf({ status, error })).toMatch(advice);
  });

  test('an incomplete 410 does not say that it made the webhook inactive', () => {
    expect(adviceOf({ status: 410, error: 'connection reset' })).not.toContain('inactive');
  });

  test.each([
    ['CERT_HAS_EXPIRED', /certificate of the receiver's system must be renewed/],
    ['CERT_NOT_YET_VALID', /valid today/],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', /public authority/],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /intermediate certificates/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', /for the host name/],
    ['ENOTFOUND', /Check the host name/],
    ['ESERVFAIL', /Check the host name/],
    ['ECONNREFUSED', /is running/],
    ['EHOSTUNREACH', /firewall/],
    ['ETIMEDOUT', /firewall/],
    ['UND_ERR_HEADERS_OVERFLOW', /few headers/],
    ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', /HTTP\/1\.1/],
    ['ERR_SSL_WRONG_VERSION_NUMBER', /Check the port/],
  ])('fits to the error that the service stores for %s', (code, advice) => {
    expect(adviceForCode(code)).toMatch(advice);
  });

  test('fits to an answer that is not HTTP', () => {
    const error = describeFailure(new errors.HTTPParserError('Invalid header'));
    expect(adviceOf({ status: 0, error })).toMatch(/HTTP\/1\.1/);
  });

  test('fits to an address that is not allowed', () => {
    const error = errorForPartners(`${NOT_ALLOWED}: it must begin with https`);
    expect(adviceOf({ status: 0, error })).toMatch(/Check the host name/);
  });

  test('has the time limit that the service stores', async () => {
    const reached = Promise.withResolvers<Error>();
    new Deadline(2).guard(reached.resolve);
    const error = describeFailure(await reached.promise);
    expect(adviceOf({ status: 0, error })).toMatch(/did not answer within 0\.002 seconds/);
  });

  test('of an unknown error is to check the address', () => {
    expect(adviceForCode('ESOMETHING')).toBe(UNKNOWN);
  });
});

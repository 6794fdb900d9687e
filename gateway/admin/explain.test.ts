import { describe, expect, test } from '@jest/globals';
import { explain } from './explain.ts';

describe('what an operator reads when a command fails', () => {
  test('a database that does not answer, with the reason', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), {
      code: 'ECONNREFUSED',
    });
    expect(explain(refused)).toBe(
      'the database does not respond (connect ECONNREFUSED 127.0.0.1:5432); is the system running?',
    );
  });

  test('a database with a certificate of a foreign authority', () => {
    const message =
      'the certificate of PostgreSQL was not accepted: no authority of sslrootcert signed it';
    const error = Object.assign(new Error(message), { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' });
    expect(explain(error)).toContain(message);
  });

  test('any other failure, in its own words', () => {
    expect(explain(new Error('there is no shop 7'))).toBe('there is no shop 7');
  });

  test('one line without control characters, which may come from a file', () => {
    expect(explain(new Error('--columns: too big\n  at \u001b[2J\u009b'))).toBe(
      '--columns: too big at \ufffd[2J\ufffd',
    );
  });
});

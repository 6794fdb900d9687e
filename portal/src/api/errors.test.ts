import { Code, ConnectError } from '@connectrpc/connect';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { sayOnLine } from '../../../test/kit/portal/on-line.ts';
import { explain, isUnanswered, NoAnswer } from './errors.ts';

beforeAll(() => {
  sayOnLine(true);
});

/** An error with the headers of the answer. */
const failure = (code: Code, headers: Record<string, string> = {}) =>
  new ConnectError('the text', code, headers);
const ANSWERED = { 'X-Request-Id': 'r-1' };
const REJECTED = { ...ANSWERED, 'Retry-After': '1' };

test.each([
  ['nothing came back', failure(Code.Unknown), /did not answer/, /Check your connection/],
  ['a bug', failure(Code.Internal, ANSWERED), /wrong on our side/, /request id r-1/],
  ['an outage', failure(Code.Unavailable, ANSWERED), /not available/, /^The text\.$/],
  ['a proxy', new ConnectError('HTTP 503', Code.Unavailable, REJECTED), /not available/, /^Try ag/],
  ['an older page', failure(Code.Unimplemented, ANSWERED), /older/, /load the page again/],
  ['a session that ended', failure(Code.Unauthenticated), /ended/, /another tab/],
  ['an exception', new TypeError('x is undefined'), /did not work/, /Load the page again/],
])('a read says what it is: %s', (_name, error, title, text) => {
  expect(explain(error).title).toMatch(title);
  expect(explain(error).text).toMatch(text);
});

describe('a write', () => {
  test.each([
    [Code.Unavailable, {}, true],
    [Code.Unavailable, ANSWERED, true],
    [Code.Internal, ANSWERED, true],
    // The gateway rejects these before their methods.
    [Code.Unavailable, REJECTED, false],
    [Code.Unimplemented, ANSWERED, false],
    [Code.ResourceExhausted, REJECTED, false],
  ])('with code %s and the headers %j may be carried out: %s', (code, headers, may) => {
    expect(isUnanswered(failure(code, headers))).toBe(may);
  });

  test('that failed in the service says where to look, and names the request', () => {
    const error = new NoAnswer(ReturnsService.method.addNote, {
      notSent: false,
      key: 'k',
      cause: failure(Code.Internal, ANSWERED),
    });
    expect(explain(error).title).toMatch(/wrong on our side/);
    expect(explain(error).text).toMatch(/Look at the return before .* request id r-1/);
  });
});

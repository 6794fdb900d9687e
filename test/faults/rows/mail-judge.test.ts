import { expect, test } from '@jest/globals';
import { judgeMails, type StoredMail } from './mail-judge.ts';

const mail = (id: string, ended: string | null, subject = `endpoint:${id}`): StoredMail => ({
  id,
  kind: 'endpoint_disabled',
  subject,
  userId: '1',
  ended,
  error: '',
  attempts: 0,
});
const arrival = (id: string) => `7.${id}@api.example.com`;

test('mails that were sent once, and one that a kill met, are as promised', () => {
  const mails = [mail('1', 'sent'), mail('2', 'unknown'), mail('3', 'unknown')];
  const arrived = [arrival('1'), arrival('2')];
  const judged = judgeMails(mails, { arrived, begun: new Set(['2', '3']), expected: 3 });
  expect(judged).toEqual({ lost: 0, repeated: 0, problems: [] });
});

test.each([
  ['is missing', [mail('1', 'sent')], [arrival('1')], 1, 0],
  ['is sent and never arrived', [mail('1', 'sent'), mail('2', 'sent')], [arrival('1')], 1, 0],
  ['is unknown without a kill', [mail('1', 'sent'), mail('2', 'unknown')], [arrival('1')], 1, 0],
  ['failed', [mail('1', 'sent'), mail('2', 'failed')], [arrival('1')], 1, 0],
  ['has not ended', [mail('1', 'sent'), mail('2', null)], [arrival('1')], 1, 0],
  [
    'arrived twice',
    [mail('1', 'sent'), mail('2', 'sent')],
    [arrival('1'), arrival('2'), arrival('2')],
    0,
    1,
  ],
  [
    'is the second of a day',
    [mail('1', 'sent', 'endpoint:1'), mail('2', 'sent', 'endpoint:1')],
    [arrival('1'), arrival('2')],
    0,
    1,
  ],
])('a mail that %s is a problem', (_, mails, arrived, lost, repeated) => {
  const judged = judgeMails(mails, { arrived, begun: new Set(), expected: 2 });
  expect(judged).toMatchObject({ lost, repeated });
  expect(judged.problems).toHaveLength(1);
});

import { connect, Socket } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { NoSocketLeft } from '../../platform/outbound/failure.ts';
import type { Dial } from '../../platform/outbound/open-socket.ts';
import { OK, onRequest, sendingFixtures } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

/** Fails like Node. */
function failingDial(fields: { code: string; address?: string }): Dial {
  return () => {
    const socket = new Socket();
    process.nextTick(() => socket.destroy(Object.assign(new Error(fields.code), fields)));
    return socket;
  };
}

describe('when this process has no socket left', () => {
  test.each([
    { code: 'EMFILE' },
    { code: 'ENFILE' },
    { code: 'ENOBUFS' },
    { code: 'EADDRNOTAVAIL', address: '127.0.0.1' },
  ])('nothing counts as an attempt: $code', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    const error = await post('http://127.0.0.1:9999/').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NoSocketLeft);
    expect(error).toMatchObject({ code: fields.code });
  });

  test.each([
    { code: 'ECONNREFUSED', address: '127.0.0.1' },
    { code: 'EADDRNOTAVAIL', address: '::1' },
  ])('another error counts as a failed attempt: $code at $address', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    expect(await post('http://127.0.0.1:9999/')).toMatchObject({ kind: 'failed' });
  });

  test('closes idle connections', async () => {
    let closed = 0;
    const receiver = await peer((socket) => {
      socket.once('close', () => {
        closed += 1;
      });
      onRequest(socket, () => socket.write(OK));
    });
    let hasNoSocketLeft = false;
    const post = sender({
      dial: ([host = ''], port) =>
        hasNoSocketLeft ? failingDial({ code: 'EMFILE' })([host], port) : connect({ host, port }),
    });
    await post(receiver.url);
    hasNoSocketLeft = true;
    await expect(post('http://127.0.0.1:9999/')).rejects.toThrow(NoSocketLeft);
    while (closed === 0) await new Promise(setImmediate);
    expect(closed).toBe(1);
  });
});

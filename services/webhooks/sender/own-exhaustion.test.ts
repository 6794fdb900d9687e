import { connect, Socket } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { OwnExhaustion } from './failure.ts';
import type { Dial } from './open-socket.ts';
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

describe('an attempt without a socket of our own', () => {
  test.each([
    { code: 'EMFILE' },
    { code: 'ENFILE' },
    { code: 'ENOBUFS' },
    { code: 'EADDRNOTAVAIL', address: '127.0.0.1' },
  ])('is none: $code', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    const error = await post('http://127.0.0.1:9999/').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OwnExhaustion);
    expect(error).toMatchObject({ code: fields.code });
  });

  test.each([
    { code: 'ECONNREFUSED', address: '127.0.0.1' },
    { code: 'EADDRNOTAVAIL', address: '::1' },
  ])('is not one that failed otherwise: $code at $address', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    expect(await post('http://127.0.0.1:9999/')).toMatchObject({ result: 'failed' });
  });

  test('closes idle connections', async () => {
    let closed = 0;
    const receiver = await peer((socket) => {
      socket.once('close', () => {
        closed += 1;
      });
      onRequest(socket, () => socket.write(OK));
    });
    let isExhausted = false;
    const post = sender({
      dial: ([host = ''], port) =>
        isExhausted ? failingDial({ code: 'EMFILE' })([host], port) : connect({ host, port }),
    });
    await post(receiver.url);
    isExhausted = true;
    await expect(post('http://127.0.0.1:9999/')).rejects.toThrow(OwnExhaustion);
    while (closed === 0) await new Promise(setImmediate);
    expect(closed).toBe(1);
  });
});

import { fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, createClient } from '@connectrpc/connect';
import { createGrpcTransport } from '@connectrpc/connect-node';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.ts';
import { ServerReflection as ServerReflectionAlpha } from '../../proto/gen/grpc/reflection/v1alpha/reflection_pb.ts';
import {
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../test/kit/services/rpc-bench.ts';

let bench: RpcBench;
beforeEach(async () => {
  bench = await startRpcBench();
});
afterEach(() => bench.close());

type Question =
  | { case: 'listServices'; value: string }
  | { case: 'fileByFilename'; value: string }
  | { case: 'fileContainingSymbol'; value: string }
  | { case: 'allExtensionNumbersOfType'; value: string };

async function ask(
  service: typeof ServerReflection | typeof ServerReflectionAlpha,
  questions: Question[],
  headers: Record<string, string>,
) {
  const { port } = await bench.serve({});
  const transport = createGrpcTransport({ baseUrl: `http://127.0.0.1:${port}` });
  async function* requests() {
    for (const messageRequest of questions) yield { host: 'h', messageRequest };
  }
  const answers = [];
  const { serverReflectionInfo } = createClient(service, transport);
  for await (const answer of serverReflectionInfo(requests(), { headers })) answers.push(answer);
  return answers;
}

const token = async () => ({ authorization: `Bearer ${await identity.token()}` });

describe.each([
  ['v1', ServerReflection],
  ['v1alpha', ServerReflectionAlpha],
])('reflection %s', (_, service) => {
  test('lists the services', async () => {
    const [answer] = await ask(service, [{ case: 'listServices', value: '*' }], await token());
    expect(answer?.messageResponse.value).toMatchObject({
      service: [{ name: 'grpc.health.v1.Health' }, { name: 'rms.carts.v1.CartsService' }],
    });
    expect(answer).toMatchObject({ validHost: 'h', originalRequest: { host: 'h' } });
  });

  test('returns the file of a symbol with all its imports', async () => {
    const symbols = [
      'rms.carts.v1.CartsService',
      'rms.carts.v1.CartsService.GetCart',
      'rms.carts.v1.CreateCartRequest',
      'rms.common.v1.Actor.Kind',
      'rms.common.v1.ErrorInfo',
    ];
    const answers = await ask(
      service,
      symbols.map((value) => ({ case: 'fileContainingSymbol', value })),
      await token(),
    );
    const files = answers.map(({ messageResponse }) => {
      if (messageResponse.case !== 'fileDescriptorResponse') throw new Error('no file');
      return messageResponse.value.fileDescriptorProto.map(
        (bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name,
      );
    });
    const carts = [
      'rms/carts/v1/carts.proto',
      'google/protobuf/timestamp.proto',
      'rms/common/v1/actor.proto',
    ];
    expect(files).toEqual([
      carts,
      carts,
      carts,
      ['rms/common/v1/actor.proto'],
      ['rms/common/v1/error.proto'],
    ]);
  });

  test('reports an unknown symbol', async () => {
    const answers = await ask(
      service,
      [
        { case: 'fileContainingSymbol', value: 'no.Such' },
        { case: 'fileByFilename', value: 'no.proto' },
      ],
      await token(),
    );
    for (const { messageResponse } of answers) {
      expect(messageResponse).toMatchObject({ value: { errorCode: Code.NotFound } });
    }
  });

  test('needs the token', async () => {
    const error = await failure(ask(service, [{ case: 'listServices', value: '' }], {}));
    expect(error.code).toBe(Code.Unauthenticated);
  });
});

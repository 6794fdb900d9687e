import { create } from '@bufbuild/protobuf';
import { type Code, ConnectError } from '@connectrpc/connect';
import pino from 'pino';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type ApplyAssessmentsRequest,
  type ApplyGradingsRequest,
  ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { DomainError } from '../../../services/platform/errors.ts';
import { errorInterceptor } from '../../../services/platform/grpc/errors.ts';
import { startGrpcServer } from '../../../services/platform/grpc/server.ts';
import { returnNotFound } from '../../../services/returns/errors.ts';
import { returnLargerThanAccepted } from '../../../services/returns/store/large.ts';

/** A small returns service that knows which lines and returns exist, and stores the handovers. */
export interface FakeReturns {
  readonly target: string;
  readonly assessments: ApplyAssessmentsRequest[];
  readonly gradings: ApplyGradingsRequest[];
  /** How often it was asked for the owner of lines. */
  checks: number;
  /** Refuses handovers with this code, or for this reason, while it is set. */
  refuseWith: Code | DomainError | undefined;
  /** Number of rejected handovers. */
  refused: number;
  /** While set, it rejects handovers with this line. */
  refuseLine: bigint | undefined;
  /** Whether its returns are larger than callers that name a limit take. */
  areLarge: boolean;
  /** How many large returns were read. */
  readWhole: number;
  addReturn(shopId: bigint, returnId: bigint, lineItemIds?: readonly bigint[]): void;
  stop(): Promise<void>;
}

export async function startFakeReturns(): Promise<FakeReturns> {
  const lines = new Map<string, bigint>();
  const returns = new Set<string>();
  const take = (lineItemIds: readonly bigint[]): void => {
    const isRefused = fake.refuseLine === undefined || lineItemIds.includes(fake.refuseLine);
    if (fake.refuseWith === undefined || !isRefused) return;
    fake.refused += 1;
    throw refusal(fake.refuseWith);
  };

  const noteOf = (lineItemId: bigint) => {
    const handed = fake.assessments.flatMap(({ assessments }) => assessments);
    const last = handed.findLast((one) => one.lineItemId === lineItemId);
    const { assessmentId = 0n, disposition } = last ?? {};
    return { assessmentId, ...(disposition?.note !== undefined && { note: disposition.note }) };
  };

  const server = await startGrpcServer({
    port: 0,
    interceptors: [errorInterceptor(pino({ level: 'silent' }))],
    routes: (router) =>
      void router.service(ReturnsService, {
        checkLineItems({ shopId, lineItemIds }) {
          fake.checks += 1;
          const owners = lineItemIds.flatMap((lineItemId) => {
            const returnId = lines.get(`${shopId}:${lineItemId}`);
            return returnId === undefined ? [] : { lineItemId, returnId, ...noteOf(lineItemId) };
          });
          return { owners };
        },
        findReturn({ shopId, selector, maxBytes }) {
          if (fake.refuseWith !== undefined) throw refusal(fake.refuseWith);
          const id = selector.case === 'returnId' ? selector.value : 0n;
          if (!returns.has(`${shopId}:${id}`)) throw returnNotFound();
          if (fake.areLarge && maxBytes > 0) throw returnLargerThanAccepted();
          if (fake.areLarge) fake.readWhole += 1;
          return { return: create(ReturnSchema, { id }) };
        },
        applyAssessments(request) {
          take(request.assessments.map(({ lineItemId }) => lineItemId));
          fake.assessments.push(request);
          return {};
        },
        applyGradings(request) {
          take(request.gradings.map(({ lineItemId }) => lineItemId));
          fake.gradings.push(request);
          return {};
        },
      }),
  });

  const fake: FakeReturns = {
    target: `127.0.0.1:${server.port}`,
    assessments: [],
    gradings: [],
    checks: 0,
    refuseWith: undefined,
    refused: 0,
    refuseLine: undefined,
    areLarge: false,
    readWhole: 0,
    addReturn(shopId, returnId, lineItemIds = []) {
      returns.add(`${shopId}:${returnId}`);
      for (const lineItemId of lineItemIds) lines.set(`${shopId}:${lineItemId}`, returnId);
    },
    stop: () => server.stop(),
  };
  return fake;
}

function refusal(of: Code | DomainError): Error {
  return of instanceof DomainError ? of : new ConnectError('no', of);
}

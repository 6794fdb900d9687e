import { create } from '@bufbuild/protobuf';
import { type Code, ConnectError } from '@connectrpc/connect';
import pino from 'pino';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  type ApplyAssessmentsRequest,
  type ApplyGradingsRequest,
  ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { errorInterceptor } from '../../../services/platform/process/service.ts';
import { startGrpcServer } from '../../../services/platform/rpc/server.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { returnNotFound } from '../../../services/returns/errors.ts';
import { returnLargerThanAccepted } from '../../../services/returns/store/large.ts';

/** A small returns service. It knows which line items and returns exist, and stores the handovers. */
export interface FakeReturns {
  readonly target: string;
  readonly assessments: ApplyAssessmentsRequest[];
  readonly gradings: ApplyGradingsRequest[];
  /** Number of calls for the owner of line items. */
  checks: number;
  /** While set, every handover fails with this code or error. */
  failWith: Code | DomainError | undefined;
  /** Number of failed handovers. */
  failed: number;
  /** While set, only handovers with this line item fail. */
  failingLine: bigint | undefined;
  /** While set, runs before assessments are stored. When it throws, the handover fails with its error. */
  beforeAssessments: ((request: ApplyAssessmentsRequest) => void | Promise<void>) | undefined;
  /** Whether its returns are larger than the `max_bytes` of a caller. */
  areLarge: boolean;
  /** Number of large returns that were read. */
  readWhole: number;
  addReturn(shopId: bigint, returnId: bigint, lineItemIds?: readonly bigint[]): void;
  stop(): Promise<void>;
}

export async function startFakeReturns(): Promise<FakeReturns> {
  const lines = new Map<string, bigint>();
  const returns = new Set<string>();
  const receive = (lineItemIds: readonly bigint[]): void => {
    const fails = fake.failingLine === undefined || lineItemIds.includes(fake.failingLine);
    if (fake.failWith === undefined || !fails) return;
    fake.failed += 1;
    throw toError(fake.failWith);
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
          if (fake.failWith !== undefined) throw toError(fake.failWith);
          const id = selector.case === 'returnId' ? selector.value : 0n;
          if (!returns.has(`${shopId}:${id}`)) throw returnNotFound();
          if (fake.areLarge && maxBytes > 0) throw returnLargerThanAccepted();
          if (fake.areLarge) fake.readWhole += 1;
          return { return: create(ReturnSchema, { id }) };
        },
        async applyAssessments(request) {
          receive(request.assessments.map(({ lineItemId }) => lineItemId));
          await fake.beforeAssessments?.(request);
          fake.assessments.push(request);
          return {};
        },
        applyGradings(request) {
          receive(request.gradings.map(({ lineItemId }) => lineItemId));
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
    failWith: undefined,
    failed: 0,
    failingLine: undefined,
    beforeAssessments: undefined,
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

function toError(of: Code | DomainError): Error {
  return of instanceof DomainError ? of : new ConnectError('no', of);
}

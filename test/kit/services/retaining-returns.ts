import { create, toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { startGrpcServer } from '../../../services/platform/rpc/server.ts';

/** A small returns service that returns the events of a test. */
export interface RetainingReturns {
  readonly target: string;
  readonly events: Event[];
  /** Snapshots that are not in their events, by return. */
  readonly snapshots: Map<bigint, Return>;
  /** While set, reads fail with this code. `failed` counts them. */
  failReadsWith: Code | undefined;
  failed: number;
  /** Added to every count, as if more events existed. */
  countMore: boolean;
  stop(): Promise<void>;
}

export async function startRetainingReturns(): Promise<RetainingReturns> {
  const matching = (request: { shopId: bigint; triggers: readonly string[] }) => {
    const { shopId, triggers } = request;
    return fake.events.filter((one) => one.shopId === shopId && triggers.includes(one.trigger));
  };
  const server = await startGrpcServer({
    port: 0,
    routes: (router) =>
      void router.service(ReturnsService, {
        countEvents(request) {
          const count = matching(request).length;
          return { count, more: fake.countMore, ...(count > 0 && { oldestAt: timestampNow() }) };
        },
        readEvents(request) {
          if (fake.failReadsWith !== undefined) {
            fake.failed += 1;
            throw new ConnectError('no', fake.failReadsWith);
          }
          const all = matching(request);
          const from = Number(request.cursor || 0);
          const to = from + request.pageSize;
          return {
            events: all.slice(from, to).map((event) => toBinary(EventSchema, event)),
            nextCursor: to < all.length ? String(to) : '',
          };
        },
        getSnapshot({ returnId }) {
          const found = fake.snapshots.get(returnId);
          if (!found) throw new ConnectError('none', Code.NotFound);
          return { return: create(ReturnSchema, found) };
        },
      }),
  });
  const fake: RetainingReturns = {
    target: `127.0.0.1:${server.port}`,
    events: [],
    snapshots: new Map(),
    failReadsWith: undefined,
    failed: 0,
    countMore: false,
    stop: () => server.stop(),
  };
  return fake;
}

import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaPrototype } from './kafka-internals.ts';

/** How long a member looks for its group's coordinator before it gives up its place. Milliseconds. */
const SEEK_MS = 12_000;
const SEEK_EVERY_MS = 200;

/** What kafkajs 2.2.4 calls a lost or missing coordinator; none of it says that the member is out. */
const LOST_NAMES = new Set([
  'KafkaJSBrokerNotFound',
  'KafkaJSConnectionClosedError',
  'KafkaJSConnectionError',
  'KafkaJSGroupCoordinatorNotFound',
  'KafkaJSNoBrokerAvailableError',
  'KafkaJSRequestTimeoutError',
]);
const LOST_TYPES = new Set([
  'COORDINATOR_LOAD_IN_PROGRESS',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'GROUP_LOAD_IN_PROGRESS',
  'LEADER_NOT_AVAILABLE',
  'NOT_COORDINATOR_FOR_GROUP',
]);

/** The two methods of the library's class that are replaced. */
interface Member {
  heartbeat(o: unknown): Promise<void>;
  joinAndSync(): Promise<void>;
}

const patched = new WeakSet<object>();

/**
 * Lets a consumer keep its place in the group when the coordinator dies. The library ends such a
 * consumer and comes back as a new member, and the group then waits for the old one until its
 * session has run out; nobody reads during that time. Here it looks for the next coordinator, as the
 * library itself does after NOT_COORDINATOR, and joins with the member id that it has.
 *
 * Changes the library's own class, once a process. Without effect should it look different one day.
 */
export function keepMembership(): void {
  const prototype = kafkaPrototype('kafkajs/src/consumer/consumerGroup.js', isMember);
  if (!prototype || patched.has(prototype)) return;
  patched.add(prototype);
  const { heartbeat, joinAndSync } = prototype;
  prototype.heartbeat = async function (this: Member, o) {
    try {
      await heartbeat.call(this, o);
    } catch (error) {
      // Of its own class still, and by its type a reason to look for the coordinator.
      throw isLost(error) ? Object.assign(error, { type: 'NOT_COORDINATOR_FOR_GROUP' }) : error;
    }
  };
  prototype.joinAndSync = async function (this: Member) {
    for (const end = performance.now() + SEEK_MS; ; await sleep(SEEK_EVERY_MS)) {
      try {
        return await joinAndSync.call(this);
      } catch (error) {
        if (!isLost(error) || performance.now() > end) throw error;
      }
    }
  };
}

function isMember(value: object): value is Member {
  return (
    'heartbeat' in value &&
    typeof value.heartbeat === 'function' &&
    'joinAndSync' in value &&
    typeof value.joinAndSync === 'function'
  );
}

/** The library wraps what it gave up retrying, so the causes are looked at too. */
function isLost(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (LOST_NAMES.has(error.name)) return true;
  if ('type' in error && typeof error.type === 'string' && LOST_TYPES.has(error.type)) return true;
  return error.cause !== undefined && isLost(error.cause);
}

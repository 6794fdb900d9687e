import { setTimeout as sleep } from 'node:timers/promises';
import { kafkaPrototype } from './internals.ts';

/** How long a member searches for its group's coordinator before it leaves the group. Milliseconds. */
const SEARCH_MS = 12_000;
const SEARCH_EVERY_MS = 200;

/** Errors of kafkajs 2.2.4 for a lost or missing coordinator. None of them means that the member was removed. */
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

/** The two methods of the library's class that this file replaces. */
interface Member {
  heartbeat(o: unknown): Promise<void>;
  joinAndSync(): Promise<void>;
}

const patched = new WeakSet<object>();

/**
 * Keeps a consumer in its group when the coordinator dies. Without this patch, the library ends the consumer and
 * creates a new member. The group then waits until the session of the old member expires, and no member reads during
 * that time. With this patch, the consumer searches for the new coordinator, as the library does after NOT_COORDINATOR,
 * and joins again with its member id.
 *
 * Patches a class of the library, once per process. Has no effect when a later version has a different class.
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
      // The error keeps its class. The new type makes the library search for the coordinator.
      throw isLost(error) ? Object.assign(error, { type: 'NOT_COORDINATOR_FOR_GROUP' }) : error;
    }
  };
  prototype.joinAndSync = async function (this: Member) {
    for (const end = performance.now() + SEARCH_MS; ; await sleep(SEARCH_EVERY_MS)) {
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

/**
 * Whether the error, or one of its causes, is about a lost coordinator. After its last retry the library wraps errors.
 */
function isLost(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (LOST_NAMES.has(error.name)) return true;
  if ('type' in error && typeof error.type === 'string' && LOST_TYPES.has(error.type)) return true;
  return error.cause !== undefined && isLost(error.cause);
}

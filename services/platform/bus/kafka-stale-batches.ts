import { kafkaPrototype } from './kafka-internals.ts';

/** The internal class of the library for the group of a consumer. It gets a new offset manager at each join. */
interface Group {
  readonly offsetManager: unknown;
  fetch(nodeId: unknown): Promise<object[]>;
}

interface Runner {
  readonly consumerGroup: Group;
  handleBatch(batch: object): Promise<void>;
}

const patched = new WeakSet<object>();
/** For each fetched batch, the offset manager at the time of its fetch. */
const origins = new WeakMap<object, unknown>();

/**
 * Makes a consumer skip batches that it fetched before it last joined its group. After some failed fetches, kafkajs
 * 2.2.4 joins while other batches wait to be handled. If it handled such a batch after the join, it would continue to
 * read after this batch, and never read the records that it dropped at the join. A skipped batch is read again from the
 * committed offset.
 *
 * Patches internal classes of the library, once per process. Has no effect when a later version has different classes.
 */
export function skipStaleBatches(): void {
  const group = kafkaPrototype('kafkajs/src/consumer/consumerGroup.js', isGroup);
  const runner = kafkaPrototype('kafkajs/src/consumer/runner.js', isRunner);
  if (!group || !runner || patched.has(group)) return;
  patched.add(group);
  const { fetch } = group;
  const { handleBatch } = runner;
  group.fetch = async function (this: Group, nodeId) {
    const origin = this.offsetManager;
    const batches = await fetch.call(this, nodeId);
    // The consumer joined during the fetch, perhaps because the fetch from another broker failed.
    if (this.offsetManager !== origin) return [];
    for (const batch of batches) origins.set(batch, origin);
    return batches;
  };
  runner.handleBatch = async function (this: Runner, batch) {
    if (origins.get(batch) === this.consumerGroup.offsetManager) {
      await handleBatch.call(this, batch);
    }
  };
}

function isGroup(value: object): value is Group {
  return 'fetch' in value && typeof value.fetch === 'function';
}

function isRunner(value: object): value is Runner {
  return 'handleBatch' in value && typeof value.handleBatch === 'function';
}

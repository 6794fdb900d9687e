import { kafkaPrototype } from './kafka-internals.ts';

/** The library's group of one consumer. Each join gives it another offset manager, which knows from where to read. */
interface Group {
  readonly offsetManager: unknown;
  fetch(nodeId: unknown): Promise<object[]>;
}

interface Runner {
  readonly consumerGroup: Group;
  handleBatch(batch: object): Promise<void>;
}

const patched = new WeakSet<object>();
/** The offset manager that a batch was fetched for. */
const origins = new WeakMap<object, unknown>();

/**
 * Lets a consumer pass over what it fetched before it last joined its group. After some failed
 * fetches kafkajs 2.2.4 joins while other batches wait for their turn. Should one of those be taken
 * after the join, reading would go on behind it, and all that was received before it and forgotten
 * at the join would never be read again. As it is skipped, it is read again from the committed offset.
 *
 * Changes the library's own classes, once a process. Without effect should they look different one day.
 */
export function passOverStaleBatches(): void {
  const group = kafkaPrototype('kafkajs/src/consumer/consumerGroup.js', isGroup);
  const runner = kafkaPrototype('kafkajs/src/consumer/runner.js', isRunner);
  if (!group || !runner || patched.has(group)) return;
  patched.add(group);
  const { fetch } = group;
  const { handleBatch } = runner;
  group.fetch = async function (this: Group, nodeId) {
    const origin = this.offsetManager;
    const batches = await fetch.call(this, nodeId);
    // It joined in the meantime, by itself or through the fetch of another broker.
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

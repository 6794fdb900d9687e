import type { z } from 'zod';
import type { ActionContext } from '../actions/context.ts';
import type { DestinationNames } from '../actions/destination-names.ts';
import type { ActionName } from '../actions/permissions.ts';
import type { SignedIn } from '../oauth/access-token.ts';
import { type ArgumentFault, readArguments } from './arguments.ts';

/** One of the hints that clients decide by whether to ask the person first, and why it is so. */
export interface Hint {
  readonly is: boolean;
  readonly because: string;
}

/** All four, always: the protocol's defaults would call a forgotten one destructive. */
export interface Hints {
  readonly readOnly: Hint;
  readonly destructive: Hint;
  readonly idempotent: Hint;
  /** Whether it reaches beyond this service: a commerce provider, somebody's endpoint. */
  readonly openWorld: Hint;
}

/** What a tool works with: an action's context, and who called. */
export interface ToolContext extends ActionContext {
  readonly user: SignedIn;
  readonly destinationNames: DestinationNames;
  /** The day at which the version calendar stands; all else goes by real time. */
  readonly calendar: Date;
  /** An earlier call with the same idempotency key began and did not come to its end. */
  readonly isResumed: boolean;
  /** The idempotency key for the service that is called; a call that is resumed has the same again. */
  readonly callId: string;
}

/** The answer of a tool: what `structuredContent` holds. */
export type Answer = Readonly<Record<string, unknown>>;

/** A tool as its file says it. */
export interface ToolDefinition<I extends z.ZodObject, O extends z.ZodObject> {
  readonly name: ActionName;
  readonly title: string;
  /** Begins "Use this when". */
  readonly description: string;
  readonly hints: Hints;
  /** Strict: an argument that is not named is refused. */
  readonly input: I;
  readonly output: O;
  /** Id of what a write changes, for the audit log; absent for tools that only read. */
  readonly subject?: (input: z.output<I>) => string;
  /** @throws ToolRefusal, or what its action throws. */
  run(context: ToolContext, input: z.output<I>): Promise<z.output<O>>;
}

/** A call whose arguments are in order. */
export interface PreparedCall {
  /** Absent for tools that only read. */
  readonly subject: string | undefined;
  readonly idempotencyKey: string | undefined;
  run(context: ToolContext): Promise<Answer>;
}

/** A tool, whatever its arguments are. */
export interface Tool {
  readonly name: ActionName;
  readonly title: string;
  readonly description: string;
  readonly hints: Hints;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  prepare(args: unknown): { ok: true; call: PreparedCall } | ArgumentFault;
}

/** Closes over a tool's types, so that all tools can stand in one list. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(
  definition: ToolDefinition<I, O>,
): Tool {
  const { name, title, description, hints, input, output, subject } = definition;
  return {
    name,
    title,
    description,
    hints,
    input,
    output,
    prepare(args) {
      const read = readArguments(input, args);
      if (!read.ok) return read;
      const key: unknown = Reflect.get(read.value, 'idempotency_key');
      const call: PreparedCall = {
        subject: subject?.(read.value),
        idempotencyKey: typeof key === 'string' ? key : undefined,
        run: (context) => definition.run(context, read.value),
      };
      return { ok: true, call };
    },
  };
}

/** A refusal that the assistant can act on: what is the matter, and what to do next. */
export class ToolRefusal extends Error {
  override readonly name = 'ToolRefusal';
}

/** The hints of a tool that only reads the shop's own data. */
export function readOnlyHints(what: string): Hints {
  return {
    readOnly: { is: true, because: `It only reads ${what}.` },
    destructive: { is: false, because: 'It changes nothing.' },
    idempotent: { is: true, because: 'Reading again changes nothing.' },
    openWorld: { is: false, because: "It reads this service's own records and asks nobody else." },
  };
}

import type { z } from 'zod';
import type { Assistants } from '../actions/assistants.ts';
import type { ActionContext } from '../actions/context.ts';
import type { DestinationNames } from '../actions/destination-names.ts';
import type { ActionName } from '../actions/permissions.ts';
import type { SignedIn } from '../oauth/access-token.ts';
import { type ArgumentFault, readArguments } from './arguments.ts';

/** A tool hint, and the reason for its value. Clients use hints to decide whether to ask the person first. */
export interface Hint {
  readonly is: boolean;
  readonly because: string;
}

/** All four hints are required: by default, the protocol treats a tool without hints as destructive. */
export interface Hints {
  readonly readOnly: Hint;
  readonly destructive: Hint;
  readonly idempotent: Hint;
  /** Whether the tool reaches other systems: a commerce provider or a webhook endpoint. */
  readonly openWorld: Hint;
}

/** The context of a tool call: the action's context and the caller. */
export interface ToolContext extends ActionContext {
  readonly user: SignedIn;
  readonly destinationNames: DestinationNames;
  readonly assistants: Assistants;
  /** The date for the version calendar; everything else uses real time. */
  readonly calendar: Date;
  /** An earlier call with the same idempotency key began, and its outcome is unknown. */
  readonly isResumed: boolean;
  /** The idempotency key for the called service; a resumed call has the same one as the earlier call. */
  readonly callId: string;
}

/** The result of a tool, as in `structuredContent`. */
export type ToolOutput = Readonly<Record<string, unknown>>;

/**
 * Returns the outcome of an earlier call whose response was lost: its answer when it was executed, undefined when it
 * certainly was not.
 *
 * @throws OutcomeUnknown when neither is certain.
 */
export type EarlierOutcome<O> = () => O | undefined | Promise<O | undefined>;

/** A tool as its file defines it. */
export interface ToolDefinition<I extends z.ZodObject, O extends z.ZodObject> {
  readonly name: ActionName;
  readonly title: string;
  /** Begins with "Use this when". */
  readonly description: string;
  readonly hints: Hints;
  /** A strict object: unknown arguments are rejected. */
  readonly input: I;
  readonly output: O;
  /** Id of the object that a write changes, for the audit log; absent for tools that only read. */
  readonly subject?: (input: z.output<I>) => string;
  /**
   * For writes that could be executed twice and that the service does not deduplicate by `callId`. Reads the current
   * state before a call with an idempotency key changes anything; when this read fails, nothing was sent.
   *
   * @param since when the first call with the key began, by the database's clock.
   */
  readonly reconcile?: (
    context: ToolContext,
    input: z.output<I>,
    since: Date,
  ) => Promise<EarlierOutcome<z.output<O>>>;
  /** @throws ToolRefusal, or what its action throws. */
  run(context: ToolContext, input: z.output<I>): Promise<z.output<O>>;
}

/** A call with valid arguments. */
export interface PreparedCall {
  /** Absent for tools that only read. */
  readonly subject: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** The parsed arguments: null optionals removed, defaults filled in. */
  readonly input: Readonly<Record<string, unknown>>;
  readonly reconcile:
    | ((context: ToolContext, since: Date) => Promise<EarlierOutcome<ToolOutput>>)
    | undefined;
  run(context: ToolContext): Promise<ToolOutput>;
}

/** A tool without the types of its arguments. */
export interface Tool {
  readonly name: ActionName;
  readonly title: string;
  readonly description: string;
  readonly hints: Hints;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  prepare(args: unknown): { ok: true; call: PreparedCall } | ArgumentFault;
}

/** Hides the types of a tool's arguments and result, so that all tools fit in one list. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(
  definition: ToolDefinition<I, O>,
): Tool {
  const { name, title, description, hints, input, output, subject, reconcile } = definition;
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
        input: read.value,
        reconcile: reconcile && ((context, since) => reconcile(context, read.value, since)),
        run: (context) => definition.run(context, read.value),
      };
      return { ok: true, call };
    },
  };
}

/** A refusal that the assistant can act on; the message has the problem and the next step. */
export class ToolRefusal extends Error {
  override readonly name = 'ToolRefusal';
}

/**
 * It cannot be determined whether an earlier call with the same idempotency key was executed, so nothing is done now.
 */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';

  /** @param whatToRead the object and the tool: "the return with get_return_timeline". */
  constructor(whatToRead: string) {
    super(
      `It is not known whether the earlier call with this idempotency_key was done, and it was not done again. Read ${whatToRead} and tell the person the current state. Only if the action is still needed, call with a new idempotency_key.`,
    );
  }
}

/** The hints of a tool that only reads the shop's own data. */
export function readOnlyHints(what: string): Hints {
  return {
    readOnly: { is: true, because: `It only reads ${what}.` },
    destructive: { is: false, because: 'It changes nothing.' },
    idempotent: { is: true, because: 'Reading again changes nothing.' },
    openWorld: { is: false, because: "It reads only this service's own records." },
  };
}

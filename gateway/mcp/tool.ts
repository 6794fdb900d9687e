import type { z } from 'zod';
import type { Assistants } from '../actions/assistants.ts';
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
  readonly assistants: Assistants;
  /** The day at which the version calendar stands; all else goes by real time. */
  readonly calendar: Date;
  /** An earlier call with the same idempotency key began and did not come to its end. */
  readonly isResumed: boolean;
  /** The idempotency key for the service that is called; a call that is resumed has the same again. */
  readonly callId: string;
}

/** The answer of a tool: what `structuredContent` holds. */
export type Answer = Readonly<Record<string, unknown>>;

/**
 * What a look tells about an earlier call whose end was lost: its answer when it was done, undefined when
 * surely nothing was done.
 *
 * @throws OutcomeUnknown when neither is sure.
 */
export type Verdict<O> = () => O | undefined | Promise<O | undefined>;

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
  /**
   * For a write that could be done twice and whose service knows no repeat by `callId`. Reads how things
   * stand, before a call with an idempotency key changes anything: one that fails here was not sent.
   *
   * @param since when the first call with the key began, by the clock of the database.
   */
  readonly look?: (
    context: ToolContext,
    input: z.output<I>,
    since: Date,
  ) => Promise<Verdict<z.output<O>>>;
  /** @throws ToolRefusal, or what its action throws. */
  run(context: ToolContext, input: z.output<I>): Promise<z.output<O>>;
}

/** A call whose arguments are in order. */
export interface PreparedCall {
  /** Absent for tools that only read. */
  readonly subject: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** What the arguments say: without nulls for what is left out, and with what stands for it. */
  readonly input: Readonly<Record<string, unknown>>;
  readonly look: ((context: ToolContext, since: Date) => Promise<Verdict<Answer>>) | undefined;
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
  const { name, title, description, hints, input, output, subject, look } = definition;
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
        look: look && ((context, since) => look(context, read.value, since)),
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

/**
 * Nobody can tell whether an earlier call with the same idempotency key was done, so nothing is done now.
 */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown';

  /** @param look what to read, and with which tool: "the return with get_return_timeline". */
  constructor(look: string) {
    super(
      `It is not known whether the earlier call with this idempotency_key was done, and it was not done again. Read ${look} and tell the person how it stands. Only if it is still to be done, call with a new idempotency_key.`,
    );
  }
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

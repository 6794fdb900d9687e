import type { z } from 'zod';
import type { Assistants } from '../actions/assistants.ts';
import type { ActionContext } from '../actions/context.ts';
import type { DestinationNames } from '../actions/destination-names.ts';
import type { RightName } from '../actions/rights.ts';
import type { SignedIn } from '../oauth/tokens/access-token.ts';
import { type InvalidArguments, parseArguments } from './schema/arguments.ts';

/**
 * A hint about a tool, and the reason for its value. Clients use hints to decide whether to ask the user before a call.
 */
export interface Hint {
  readonly is: boolean;
  readonly because: string;
}

/** The hints of a tool. All four are required, because clients treat a tool without hints as destructive. */
export interface Hints {
  readonly readOnly: Hint;
  readonly destructive: Hint;
  readonly idempotent: Hint;
  /** Whether the tool reaches other systems: a commerce provider or a webhook endpoint. */
  readonly openWorld: Hint;
}

/** The context of a tool call. */
export interface ToolContext extends ActionContext {
  readonly user: SignedIn;
  readonly destinationNames: DestinationNames;
  readonly assistants: Assistants;
  /** The date for the version calendar. Everything else uses the real time. */
  readonly calendar: Date;
  /** The idempotency key that the tool sends to the service. A repeat of the call sends the same key. */
  readonly callId: string;
}

/** The result of a tool, as in `structuredContent`. */
export type ToolOutput = Readonly<Record<string, unknown>>;

/** Objects of a shop, for arguments of calls. Tests over all tools make their calls from them. */
export interface SampleObjects {
  readonly openReturn: number;
  /** A return in review. */
  readonly flaggedReturn: number;
  readonly closedReturn: number;
  /** A return with a fraud report. */
  readonly reportedReturn: number;
  readonly lineItems: readonly number[];
  readonly destination: number;
  readonly webhook: number;
  readonly delivery: string;
  readonly replay: number;
  readonly assistant: string;
  /** A text that differs from all before. @param length in characters. */
  longText(length: number): string;
}

type SampleArguments = (of: SampleObjects) => Readonly<Record<string, unknown>>;

/** A tool as its file in `tools/` defines it. */
export interface ToolDefinition<I extends z.ZodObject, O extends z.ZodObject> {
  readonly name: string;
  /** Who may use it. */
  readonly right: RightName;
  readonly title: string;
  /** Description for assistants. Begins with "Use this when". */
  readonly description: string;
  readonly hints: Hints;
  /** A strict object: unknown arguments are rejected. */
  readonly input: I;
  readonly output: O;
  /** Id of the object that a write changes, for the audit log; absent for tools that only read. */
  readonly subject?: (input: z.output<I>) => string;
  /** Arguments of a call that succeeds. */
  readonly sample: SampleArguments;
  /** The arguments that cost this service most; absent when the sample does. */
  readonly costly?: SampleArguments;
  /** Executes the call. @throws ToolError, or the errors of its action. */
  run(context: ToolContext, input: z.output<I>): Promise<z.output<O>>;
}

/** A call with valid arguments. */
export interface PreparedCall {
  /** Id of the object that the write changes; undefined for tools that only read. */
  readonly subject: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** The parsed arguments. Optional fields that were null are absent, and defaults are filled in. */
  readonly input: Readonly<Record<string, unknown>>;
  run(context: ToolContext): Promise<ToolOutput>;
}

/** A tool without the types of its arguments. */
export interface Tool {
  readonly name: string;
  readonly right: RightName;
  readonly title: string;
  readonly description: string;
  readonly hints: Hints;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  readonly sample: SampleArguments;
  readonly costly: SampleArguments;
  prepare(args: unknown): { ok: true; call: PreparedCall } | InvalidArguments;
}

/** Removes the types of a tool's arguments and result, so that one list can contain all tools. */
export function defineTool<I extends z.ZodObject, O extends z.ZodObject>(
  definition: ToolDefinition<I, O>,
): Tool {
  const { name, right, title, description, hints, input, output, subject, sample } = definition;
  return {
    name,
    right,
    title,
    description,
    hints,
    input,
    output,
    sample,
    costly: definition.costly ?? sample,
    prepare(args) {
      const parsed = parseArguments(input, args);
      if (!parsed.ok) return parsed;
      const key: unknown = Reflect.get(parsed.value, 'idempotency_key');
      const call: PreparedCall = {
        subject: subject?.(parsed.value),
        idempotencyKey: typeof key === 'string' ? key : undefined,
        input: parsed.value,
        run: (context) => definition.run(context, parsed.value),
      };
      return { ok: true, call };
    },
  };
}

/** A failure that the assistant can act on. The message says the problem and the next step. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
}

/** The hints of a tool that only reads the shop's own data. */
export function readOnlyHints(what: string): Hints {
  return {
    readOnly: { is: true, because: `It only reads ${what}.` },
    destructive: { is: false, because: 'It changes nothing.' },
    idempotent: { is: true, because: 'Reading again changes nothing.' },
    openWorld: { is: false, because: 'It reads only records of this shop.' },
  };
}

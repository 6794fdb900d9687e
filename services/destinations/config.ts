import { serviceShape } from '../platform/config.ts';

/** The environment variables of the destinations service. */
export const destinationsShape = { ...serviceShape };

import { serviceShape } from '../platform/config.ts';

/** The variables of the destinations service. */
export const destinationsShape = { ...serviceShape };

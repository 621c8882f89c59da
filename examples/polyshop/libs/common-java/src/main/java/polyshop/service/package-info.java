/** What every service has: its settings, log lines, traces, metrics and probes. */
package polyshop.service;

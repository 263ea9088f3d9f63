// Package serving provides what the webhook server needs beside its handlers: the
// certificate, and the URL path of the conversion webhook.
package serving

// ConversionPath is the path of the conversion webhook.
const ConversionPath = "/convert"

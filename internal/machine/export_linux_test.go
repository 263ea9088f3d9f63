package machine

// Unsure is for the tests.
var Unsure = unsure

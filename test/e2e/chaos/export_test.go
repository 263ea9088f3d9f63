package chaos

// AskByARP is what tests need of askByARP.
var AskByARP = askNode

-- wrk -s calls.lua URL -- KIND [FIRST]: JSON-RPC calls as `benchmarks.rounds` makes them.
-- KIND: same · ids · local · batch · miss · keys. FIRST: the number that unique calls begin at.
local kind, number = "same", 0
local head = '{"jsonrpc":"2.0","id":'
local block = ',"method":"eth_getBlockByNumber","params":["0x10",false]}'

function init(args)
   kind = args[1] or kind
   number = tonumber(args[2] or "0")
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
end

local function hashed(n)
   return head .. number .. ',"method":"eth_getBlockByHash","params":["0x' .. string.format("%064x", n) .. '",false]}'
end

local bodies = {
   same = function() return head .. "1" .. block end,
   ids = function() return head .. number .. block end,
   ["local"] = function() return head .. number .. ',"method":"hmyv2_blockNumber","params":[]}' end,
   batch = function()
      local items = {}
      for place = 1, 20 do items[place] = head .. (number * 20 + place) .. block end
      return "[" .. table.concat(items, ",") .. "]"
   end,
   miss = function() return hashed(number) end,
   keys = function() return hashed(number % 1000) end,
}

function request()
   number = number + 1
   return wrk.format(nil, nil, nil, bodies[kind]())
end

function done(summary)
   local errors = summary.errors
   io.write(string.format('{"requests":%d,"seconds":%f,"failures":%d}\n', summary.requests, summary.duration / 1e6,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end

package luavm

import "testing"

// Programs whose answers are those of PUC Lua 5.1, which was asked. Results are
// joined by " | "; a table, function or coroutine is its type.
func TestAnswersAreThoseOfLua(t *testing.T) {
	b := oneBox(t, VMConfig{})
	b.do(`
		local function show(v)
			if v ~= v then return "nan" end
			if v == 1/0 then return "inf" end
			if v == -1/0 then return "-inf" end
			if type(v) == "number" then return ("%.14g"):format(v) end
			if type(v) == "string" then return (v:gsub("%c", function(c) return "\\" .. c:byte() end)) end
			return type(v) == "boolean" and tostring(v) or type(v)
		end
		function answer(...)
			local t = {...}
			for i = 1, table.maxn(t) do t[i] = show(t[i]) end
			return table.concat(t, " | ")
		end`)
	for _, tt := range []struct{ src, want string }{
		{`return ("hello world from Lua"):gsub("(%w+) (%w+)", "%2 %1")`, "world hello Lua from | 2"},
		{`return ("THE (quick) fox"):find("%((%a+)%)")`, "5 | 11 | quick"},
		{`return ("key = value"):match("^(%w+)%s*=%s*(%w+)$")`, "key | value"},
		{`return ("  trim  "):match("^%s*(.-)%s*$")`, "trim"},
		{`return ("f(a(b)c)d"):match("%b()"), ("THE (quick) fox"):gsub("%f[%a]%a+", "w")`, "(a(b)c) | w (w) w | 3"},
		{`return ("x^y"):find("^", 1, true), ("[x]"):find("[]]"), ("a-b"):gsub("[a%-]", "."), ("]"):match("[^]]")`, "2 | 3 | ..b"},
		{`return ("2024-01-02"):match("(%d+)-(%d+)-(%d+)")`, "2024 | 01 | 02"},
		{`return ("aaa"):find("a-", 2), ("aaa"):match("^(a-)$"), ("aXb"):find("%u"), ("\0a"):find("%z")`, "2 | aaa | 2 | 1 | 1"},
		{`return ("abcabc"):match("(a)(b)(c)%1%2%3"), ("abc"):find("()b()")`, "a | 2 | 2 | 2 | 3"},
		{`local t = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do t[#t + 1] = k .. v end return table.concat(t, " ")`, "a1 b2"},
		{`local t = {} for w in ("one two"):gmatch("%a*") do t[#t + 1] = "<" .. w .. ">" end return table.concat(t)`, "<one><><two><>"},
		{`return ("abc"):gsub("%w", "%0%0", 2), ("abc"):gsub("(b)", "<%1>"), ("abc"):gsub("b", "%%")`, "aabbc | a<b>c | a%c | 1"},
		{`local co=coroutine.create(function(a,b) local c=coroutine.yield(a+b) local d,e=coroutine.yield(c*2) return d,e end) local r={} local function add(...) for i=1,select('#',...) do r[#r+1]=tostring((select(i,...))) end end add(coroutine.resume(co,1,2)) add(coroutine.resume(co,10)) add(coroutine.resume(co,"x","y")) add(coroutine.resume(co)) add(coroutine.status(co)) return table.concat(r,",")`, "true,3,true,20,true,x,y,false,cannot resume dead coroutine,dead"},
		{`local co=coroutine.create(function() error("boom",0) end) local a,b=coroutine.resume(co) return a,b,coroutine.status(co)`, "false | boom | dead"},
		{`local co=coroutine.create(function() error({1}) end) local a,b=coroutine.resume(co) return a,type(b),coroutine.status(co)`, "false | table | dead"},
		{`local a,b a=coroutine.create(function() return coroutine.status(a), coroutine.status(b) end) b=coroutine.create(function() return coroutine.resume(a) end) return coroutine.resume(b)`, "true | true | running | normal"},
		{`local w=coroutine.wrap(function(...) while true do local n = coroutine.yield(select('#',...)) if n == nil then return "end" end end end) return w(nil,nil), w(1), w()`, "2 | 2 | end"},
		{`local w=coroutine.wrap(function() for i=1,3 do coroutine.yield(i) end end) local s="" for v in w do s=s..v end return s`, "123"},
		{`local co=coroutine.create(function() local ok,e=pcall(error,"x",0) coroutine.yield(ok,e) return "done" end) return coroutine.resume(co)`, "true | false | x"},
		{`local function gen(n) return coroutine.wrap(function() for i=1,n do coroutine.yield(i) end end) end local s=0 for a in gen(10) do for b in gen(a) do s=s+b end end return s`, "220"},
		{`local function perm(a,n) n=n or #a if n<=1 then coroutine.yield(a) else for i=1,n do a[n],a[i]=a[i],a[n] perm(a,n-1) a[n],a[i]=a[i],a[n] end end end local c=0 for p in coroutine.wrap(function() perm({1,2,3,4}) end) do c=c+p[1]*p[4] end return c`, "140"},
		{`local t={} local co=coroutine.wrap(function(x) local up=x t.f=function() up=up+1 return up end coroutine.yield() up=up*10 coroutine.yield() return up end) co(5) t.f() co() t.f() return co(), t.f()`, "61 | 62"},
		{`local co=coroutine.create(function(...) return ... end) return select('#', coroutine.resume(co, 1, nil, nil))`, "4"},
		{`local co = coroutine.create(function() coroutine.yield(coroutine.running()) end) local ok, r = coroutine.resume(co) return r == co`, "true"},
		{`local s=0 for i=1,2000 do local co=coroutine.wrap(function(a) return a*2 end) s=s+co(i) end return s`, "4002000"},
		{`local co=coroutine.create(function() return setmetatable({},{__index=function(t,k) return k.."!" end}).x end) return coroutine.resume(co)`, "true | x!"},
		{`local e=setmetatable({},{__tostring=function() return "E" end}) local ok,x=pcall(error,e) return ok, tostring(x), x==e`, "false | E | true"},
		{`local ok,e=pcall(function() local x=nil; x.y=1 end) return ok`, "false"},
		{`local function f(...) return select('#',...), ... end return f(nil,nil), (f(1,2))`, "2 | 2"},
		{`local t=setmetatable({},{__call=function(self,a,b) return a+b end}) return t(1,2), pcall(t,3,4)`, "3 | true | 7"},
		{`local t=setmetatable({},{__newindex=function(t,k,v) rawset(t,k,v*2) end}) t.x=5 t[1]=3 return t.x,t[1]`, "10 | 6"},
		{`local mt={__eq=function() return true end} local a,b=setmetatable({},mt),setmetatable({},mt) return a==b, a~=b, rawequal(a,b)`, "true | false | false"},
		{`local mt={__lt=function(a,b) return a.v<b.v end,__le=function(a,b) return a.v<=b.v end} local a,b=setmetatable({v=1},mt),setmetatable({v=2},mt) return a<b,a<=b,a>b,a>=b`, "true | true | false | false"},
		{`local mt={__concat=function(a,b) return (type(a)=="table" and "T" or a)..(type(b)=="table" and "T" or b) end} local a=setmetatable({},mt) return a.."x", "x"..a, 1 ..a, a..a, "p".."q"..a`, "Tx | xT | 1T | TT | pqT"},
		{`local mt={__unm=function() return "neg" end,__len=function() return 7 end} local a=setmetatable({},mt) return -a`, "neg"},
		{`local t={10,20,30,nil,50} return select('#',unpack(t)), #t >= 3`, "5 | true"},
		{`local t={} for i=1,10 do t[i]=i end for i=1,10 do table.remove(t,1) end return #t, next(t)`, "0"},
		{`local t={5,2,8,1} table.sort(t,function(a,b) return a>b end) return table.concat(t,",")`, "8,5,2,1"},
		{`local t={"b","a","C","10","9"} table.sort(t) return table.concat(t,",")`, "10,9,C,a,b"},
		{`local ok=pcall(table.sort,{3,1,"x"}) return ok`, "false"},
		{`local t={} table.insert(t,"a") table.insert(t,1,"b") table.insert(t,2,"c") return table.concat(t,",")`, "b,c,a"},
		{`return table.concat({1,2,3},",",2), table.concat({1,2,3},",",3,2), table.concat({},"x")`, "2,3 |  | "},
		{`local s="" for k,v in ipairs({1,2,nil,4}) do s=s..k end return s`, "12"},
		{`local a={} for i=1,3 do a[i]=function() i=i+1 return i end end return a[1](),a[1](),a[2]()`, "2 | 3 | 3"},
		{`local x=5 do local x=x+1 x=x*2 end return x`, "5"},
		{`local s="" local i=0 repeat local j=i i=i+1 s=s..j until j>=2 return s`, "012"},
		{`return (function(...) local a,b=... return a,b,... end)(1,2,3)`, "1 | 2 | 1 | 2 | 3"},
		{`return 1 and nil or 2, false or nil, nil and 1, not 0, not nil`, "2 | nil | nil | false | true"},
		{`return 2^3^2, -2^2, not 1==2, 1 .. 2 == "12", "a"<"b", "a"<"B", "Z"<"a", ""<"a"`, "512 | -4 | false | true | true | false | true | true"},
		{`return "\97\98\z c", "\x41"`, "abz c | x41"},
		{`local env={print=1} local f=loadstring("return print, x") setfenv(f,env) env.x=2 return f()`, "1 | 2"},
		{`local function f() return getfenv(1)==_G, getfenv(0)==_G, getfenv(f)==_G end return f()`, "true | true | true"},
		{`return type(_G), _G._G==_G, _VERSION`, "table | true | Lua 5.1"},
		{`return pcall(error), pcall(error,nil), select('#',pcall(error))`, "false | false | 2"},
		{`return pcall(error,"m",0)`, "false | m"},
		{`return select(2,pcall(error,setmetatable({},{__tostring=function() return "x" end}))) ~= nil`, "true"},
		{`return tostring(setmetatable({},{__tostring=function() return "hi" end})), pcall(tostring,setmetatable({},{__tostring=function() return 1 end}))`, "hi | true | 1"},
		{`return math.floor(3.7),math.ceil(3.2),math.abs(-3),math.max(1,2,3),math.min(1,2,3),math.sqrt(16),math.pow(2,10),math.exp(0),math.log(1),math.sin(0),math.cos(0),math.fmod(7,3),math.fmod(-7,3),math.modf(3.7)`, "3 | 4 | 3 | 3 | 1 | 4 | 1024 | 1 | 0 | 0 | 1 | 1 | -1 | 3 | 0.7"},
		{`return math.modf(-3.7), math.modf(1/0), math.frexp(8), math.ldexp(0.5,4), math.deg(math.pi), math.rad(180)==math.pi`, "-3 | inf | 0.5 | 8 | 180 | true"},
		{`return 7%3,-7%3,7%-3,-7%-3,7.5%2,-7.5%2, 1e15%7, 2^53%3`, "1 | 2 | -2 | -1 | 1.5 | 0.5 | 6 | 2"},
		{`return 1/0>0, -1/0<0, 0/0~=0/0, 1e308*10, -1e308*10`, "true | true | true | inf | -inf"},
		{`local t={} t[1.0]=1 t[1]=2 t[2^0]=3 return #t,t[1]`, "1 | 3"},
		{`local t={} t["1"]=1 t[1]=2 return t["1"],t[1]`, "1 | 2"},
		{`return os.time({year=2024,month=2,day=30,hour=12})==os.time({year=2024,month=3,day=1,hour=12})`, "true"},
		{`return os.time({year=2024,month=14,day=1,hour=0,min=-5,sec=70})`, "1738367770"},
		{`return os.date("!%Y-%m-%d %H:%M:%S",1e9), os.date("!*t",1e9).yday, os.date("!%U %W %j %w %p %I",1e9)`, "2001-09-09 01:46:40 | 252 | 36 36 252 0 AM 01"},
		{`return string.format("%q","a\rb\nc\0d\"\\")`, `"a\rb\\10c\000d\"\\"`},
		{`return ("a,b,,c"):find(",",1,true), ("a.b"):find(".",2,true), ("a"):find("",1,true), ("a"):find("",3,true), ("abc"):find("b",-1)`, "2 | 2 | 1 | 2"},
		{`return string.byte("abc",-1), string.byte("abc",10), string.byte("abc",0), string.byte("",1), string.char()`, "99 | nil | nil | nil | "},
		{`return ("abc"):sub(0), ("abc"):sub(-2), ("abc"):sub(2,-2), ("abc"):sub(3,2), ("abc"):sub(-100,100)`, "abc | bc | b |  | abc"},
		{`return pcall(tonumber), pcall(tonumber,"1",1), pcall(tonumber,"1",37), tonumber(nil)`, "false | false | false"},
		{`return pcall(unpack), pcall(select), pcall(select,0), select(-1,1,2)`, "false | false | false | 2"},
		{`local n=0 return load(function() n=n+1 if n==1 then return "return " elseif n==2 then return "42" end end)()`, "42"},
		{`local a = {f = function(self, x) return self.v + x end, v = 1} return a:f(2), a.f(a, 3)`, "3 | 4"},
		{`return #"\0\0\0", "\0"=="\0", "a\0b">"a\0a"`, "3 | true | true"},
		{`return (" x "):gsub("^%s+",""), ("x = 1"):match("^(%w+)%s*=%s*(%w+)$"), ("key"):gsub("k",{k="K"}), ("abc"):gsub("%w",{a=1,b=false})`, "x  | x | Key | 1bc | 3"},
		// The utf8 library is that of Lua 5.4.
		{`return utf8.len("aé日😀"), utf8.len("aé", 2), utf8.len("aé日", -3), utf8.len("", 1)`, "4 | 1 | 1 | 0"},
		{`return utf8.len("a\255"), utf8.len("é", 2)`, "nil | nil | 2"},
		{`return utf8.codepoint("aé日😀", 1, -1)`, "97 | 233 | 26085 | 128512"},
		{`return utf8.char(65, 233, 26085, 128512), utf8.char(), utf8.char(0)`, `Aé日😀 |  | \0`},
		{`return utf8.offset("aé日", 3), utf8.offset("aé日", -1), utf8.offset("aé日", 0), utf8.offset("aé日", 0, 3), utf8.offset("aé日", 4), utf8.offset("aé日", 5)`, "4 | 4 | 1 | 2 | 7"},
		{`local t = {} for p, c in utf8.codes("aé日") do t[#t + 1] = p .. ":" .. c end return table.concat(t, " ")`, "1:97 2:233 4:26085"},
		{`local n = 0 for c in ("aé日"):gmatch(utf8.charpattern) do n = n + 1 end return n, pcall(utf8.codepoint, "\255")`, "3 | false | test.lua:1: invalid UTF-8 code"},
	} {
		fn := "return answer((function() " + tt.src + " end)())"
		if got := b.do(fn); got != tt.want {
			t.Errorf("%s = %q, want %q", tt.src, got, tt.want)
		}
	}
}
